// Two maps that colour-blind readers can read: dark blue to yellow for amounts, blue to orange for signs.
// Both differ in lightness all along, so they survive a grey printer too.

const AMOUNT = [[0, 32, 77], [0, 48, 111], [57, 72, 107], [87, 93, 109], [112, 113, 115],
  [138, 134, 121], [166, 157, 117], [196, 181, 107], [229, 207, 82], [255, 234, 70]];
const SIGNED = {
  light: [[8, 64, 129], [43, 115, 184], [120, 174, 216], [196, 218, 234], [248, 246, 242],
    [250, 214, 176], [240, 163, 94], [205, 104, 24], [140, 61, 4]],
  dark: [[140, 200, 255], [84, 158, 226], [48, 110, 170], [32, 66, 104], [26, 29, 34],
    [92, 58, 26], [160, 92, 30], [224, 137, 52], [255, 190, 122]],
};

function along(stops, x) {
  const place = Math.min(Math.max(x, 0), 1) * (stops.length - 1);
  const i = Math.min(Math.floor(place), stops.length - 2);
  const share = place - i;
  return stops[i].map((from, channel) => Math.round(from + (stops[i + 1][channel] - from) * share));
}

function table(stops) {
  return Array.from({ length: 256 }, (_, i) => along(stops, i / 255));
}

const TABLES = { amount: table(AMOUNT), light: table(SIGNED.light), dark: table(SIGNED.dark) };

// A scale for values between low and high: `colour(value)` gives [red, green, blue]. Amounts run by their root, so that
// small shares can be told apart beside a large one; `at(x)` is the value at a place 0..1 of the scale.
export function scaleFor(low, high, theme) {
  const signed = low < 0;
  const limit = Math.max(Math.abs(low), Math.abs(high)) || 1;
  const colours = signed ? TABLES[theme] : TABLES.amount;
  const place = signed ? (value) => (value / limit + 1) / 2 : (value) => Math.sqrt(Math.max(value, 0) / limit);
  const at = signed ? (x) => (2 * x - 1) * limit : (x) => x * x * limit;
  return { at, signed, colour: (value) => colours[Math.max(0, Math.min(255, Math.round(255 * place(value))))] ?? [128, 128, 128] };
}

export function css([red, green, blue], opacity = 1) {
  return opacity === 1 ? `rgb(${red},${green},${blue})` : `rgba(${red},${green},${blue},${opacity})`;
}

// Ink that can be read on a colour: whichever of the two is further from it in light.
export function inkOn(colour) {
  const [red, green, blue] = colour.map((channel) => (channel / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#14161a" : "#ffffff";
}

export const INK = {
  light: { text: "#1d1f23", quiet: "#6a6d75", rule: "#d9d6cf", ground: "#ffffff", mark: "#c2410c", made: "#0f7b6c", halo: "#ffffff" },
  dark: { text: "#eceae6", quiet: "#9b9ea6", rule: "#363a42", ground: "#1b1e24", mark: "#ff9d5c", made: "#5fd3bf", halo: "#0d0f12" },
};
