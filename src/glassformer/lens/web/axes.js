// Axes by their letters, as shapes.py fixes them: what stands along one, and what many of these are called.
const AXES = {
  T: ["token", "tokens"], S: ["token", "tokens"], M: ["position", "positions"], V: ["symbol", "symbols"], K: ["class", "classes"],
  H: ["head", "heads"], J: ["key head", "key heads"], 4: ["gate", "gates"], 3: ["gate", "gates"], R: ["bucket", "distance buckets"],
  F: ["unit", "units"], P: ["value", "values of a patch"], Y: ["row", "rows"], X: ["column", "columns"], G: ["channel", "channels"],
};
const WIDTH = ["C", "D", "A", "E", "I", "O", "L", "N", "W"];

export const axisName = (axis, many = false) => (AXES[axis] ?? (WIDTH.includes(axis) ? ["dimension", "width"] : ["", ""]))[Number(many)];

// Heads and gates: of a tensor that has them, one at a time is shown.
export const isGroup = (axis) => ["H", "J"].includes(axis) || isGate(axis);
export const isGate = (axis) => ["4", "3"].includes(axis);

// Formulas see them first: heads and gates in the middle of three axes, and a row of numbers for each gate.
export const isGrouped = ({ axes }) => (axes.length === 3 ? isGroup(axes[1]) : axes.length === 2 && isGate(axes[0]));
