/* For programs that run in an emulator: results out, instructions and stack measured. The same program runs on the
   host, where nothing is measured. main()'s value is the exit status. */
#ifndef EMULATOR_H
#define EMULATOR_H

#include <stdint.h>

/* One line: the name (no spaces) and the bytes in hex, as they lie in memory. edge/emulator.py reads it back. */
void emulator_report(const char *name, const void *values, uint32_t bytes);

/* Between these two calls: instructions and the deepest use of the stack, seen from the function that calls both,
   reported as two 32-bit numbers. Nothing in between is (0, 0): the two calls are not counted, the call of what is measured is.
   At most 10^9 instructions. */
void emulator_begin(void);
void emulator_end(const char *name);

#endif
