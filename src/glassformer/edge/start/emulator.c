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
enum { TOO_LONG = 254 };                                   /* an exit status; edge/emulator.py */

/* emulator.S */
uint32_t emulator_semihost(uint32_t operation, const void *arguments);
void emulator_prepare(void);
void emulator_began(const char *stack);
void emulator_ended(const char *name, uint32_t time, const char *deepest);
void emulator_exit(uint32_t status);
void emulator_fault(void);
uint32_t emulator_time; /* when emulator_begin was done */

static char text[256]; /* a semihosting call takes QEMU long: few, not one for each byte */
static uint32_t output, filled, nothing;
static uint64_t began;
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

#if COUNTER_CMSDK_TIMER /* counts down at 25 MHz: 16 ticks in the 640 ns of 5 instructions; notices when it is at 0 */

enum { TICKS = 16, INSTRUCTIONS = 5 };
static volatile uint32_t *const timer = (volatile uint32_t *)0x40000000, *const mpu = (volatile uint32_t *)0xE000ED94;
static void clock_start(void) {
    timer[1] = UINT32_MAX, timer[2] = UINT32_MAX, timer[3] = 1, timer[0] = 9;
    /* QEMU has no end of memory below the stack: the 256 MB there become a region without access. */
    mpu[2] = 0x10000000, mpu[3] = 1u << 28 | 27u << 1 | 1, mpu[0] = 5;
}
static uint64_t clock_time(void) { return (uint64_t)timer[3] << 32 | ~timer[1]; }

#elif COUNTER_SSE_COUNTER /* counts up at 32 MHz: 512 ticks in the 16 us of 125 */

enum { TICKS = 512, INSTRUCTIONS = 125 };
static volatile uint32_t *const counter = (volatile uint32_t *)0x58100000;
static void clock_start(void) { counter[0] = 1; }
static uint64_t clock_time(void) { return (uint64_t)counter[3] << 32 | counter[2]; }

#elif COUNTER_INSTRET /* counts emulated ns, of which an instruction takes one */

enum { TICKS = 1, INSTRUCTIONS = 1 };
static void clock_start(void) {}
static uint64_t clock_time(void) {
    uint32_t low, high;
    __asm__ volatile("csrr %0, minstreth\ncsrr %1, minstret" : "=r"(high), "=r"(low));
    return (uint64_t)high << 32 | low;
}

#endif

void emulator_began(const char *stack) {
    clock_start();
    began_at = stack;
    began = clock_time();
}

void emulator_ended(const char *name, uint32_t time, const char *deepest) {
    const uint64_t ticks = time - emulator_time;
    const uint32_t taken = (uint32_t)((ticks * INSTRUCTIONS + TICKS / 2) / TICKS);
    if (deepest == emulator_stack) emulator_fault();
    if ((clock_time() - began) >> 32) emulator_exit(TOO_LONG);
    if (*name) emulator_report(name, (const uint32_t[]){taken - nothing, (uint32_t)(began_at - deepest)}, 8);
    else nothing = taken; /* by the two calls themselves */
}

void emulator_prepare(void) {
    output = emulator_semihost(OPEN, (const uint32_t[]){(uint32_t)":tt", 4 /* "w" */, 3});
    emulator_begin();
    emulator_end("");
}

#endif
