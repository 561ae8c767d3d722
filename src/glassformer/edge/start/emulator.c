/* What a program needs on a board that QEMU emulates: results by semihosting and a clock that counts instructions.
   QEMU loads .data and clears .bss. COUNTER_* comes from targets.py. */
#include "emulator.h"

static void out(const char *text, uint32_t bytes);

void emulator_report(const char *name, const void *values, uint32_t bytes) {
    const uint8_t *value = values;
    uint32_t length = 0;
    while (name[length]) length++;
    out(name, length);
    out(" ", 1);
    for (uint32_t i = 0; i < bytes; i++) {
        const char hex[2] = {"0123456789abcdef"[value[i] >> 4], "0123456789abcdef"[value[i] & 15]};
        out(hex, 2);
    }
    out("\n", 1);
}

#if COUNTER_NONE /* the host: nothing is measured */

#include <stdio.h>

static void out(const char *text, uint32_t bytes) { fwrite(text, 1, bytes, stdout); }
void emulator_begin(void) {}
void emulator_end(const char *name) { emulator_report(name, (const uint32_t[2]){0}, 8); }

#else

enum { OPEN = 1, WRITE = 5, EXIT = 32, EXITED = 0x20026 }; /* of semihosting */

/* emulator.S */
uint32_t emulator_semihost(uint32_t operation, const void *arguments);
void emulator_prepare(void);
void emulator_began(const char *stack);
void emulator_ended(const char *name, uint32_t time, const char *deepest);
void emulator_exit(uint32_t status);
void emulator_fault(void);

static char text[256]; /* a semihosting call takes QEMU long: few, not one for each byte */
static uint32_t output, filled, began, nothing;
static const char *began_at;
extern const char emulator_stack[]; /* emulator.ld */

static void flush(void) {
    emulator_semihost(WRITE, (const uint32_t[]){output, (uint32_t)text, filled});
    filled = 0;
}

static void out(const char *bytes, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        text[filled++] = bytes[i];
        if (filled == sizeof text || bytes[i] == '\n') flush();
    }
}

void emulator_exit(uint32_t status) {
    emulator_semihost(EXIT, (const uint32_t[]){EXITED, status});
    for (;;) {}
}

#if COUNTER_CMSDK_TIMER /* counts down at 25 MHz: 3.2 ticks in the 128 ns of an instruction */

static volatile uint32_t *const timer = (volatile uint32_t *)0x40000000;
static volatile uint32_t *const mpu = (volatile uint32_t *)0xE000ED94;
static void board_start(void) {
    timer[1] = timer[2] = UINT32_MAX, timer[0] = 1;
    /* QEMU has no end of memory below the stack: the 256 MB there become a region without access. */
    mpu[2] = 0x10000000, mpu[3] = 1u << 28 | 27u << 1 | 1, mpu[0] = 5;
}
static uint32_t clock_time(void) { return timer[1]; }
static uint32_t instructions(uint32_t from, uint32_t to) { return (uint32_t)(((uint64_t)(from - to) * 5 + 8) / 16); }

#elif COUNTER_SSE_COUNTER /* counts up at 32 MHz: 4.096 ticks */

static volatile uint32_t *const counter = (volatile uint32_t *)0x58100000;
static void board_start(void) { counter[0] = 1; }
static uint32_t clock_time(void) { return counter[2]; }
static uint32_t instructions(uint32_t from, uint32_t to) { return (uint32_t)(((uint64_t)(to - from) * 125 + 256) / 512); }

#elif COUNTER_INSTRET /* counts emulated ns, of which an instruction takes one */

static void board_start(void) {}
static uint32_t clock_time(void) {
    uint32_t time;
    __asm__ volatile("csrr %0, minstret" : "=r"(time));
    return time;
}
static uint32_t instructions(uint32_t from, uint32_t to) { return to - from; }

#endif

void emulator_began(const char *stack) {
    began_at = stack;
    began = clock_time();
}

void emulator_ended(const char *name, uint32_t time, const char *deepest) {
    const uint32_t measured[] = {instructions(began, time) - nothing, (uint32_t)(began_at - deepest)};
    if (deepest == emulator_stack) emulator_fault();
    if (*name) emulator_report(name, measured, sizeof measured);
    else nothing = measured[0]; /* what the two calls themselves take */
}

void emulator_prepare(void) {
    output = emulator_semihost(OPEN, (const uint32_t[]){(uint32_t)":tt", 4 /* "w" */, 3});
    board_start();
    emulator_begin();
    emulator_end("");
}

#endif
