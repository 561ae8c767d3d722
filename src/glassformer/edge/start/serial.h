/* The first serial port of a board that QEMU emulates; with `-serial stdio` its bytes are QEMU's own input and output. */
#ifndef SERIAL_H
#define SERIAL_H

#include <stdint.h>

#if __riscv /* 16550 */

static volatile uint8_t *const serial = (volatile uint8_t *)0x10000000;

static void serial_begin(void) {}

static int serial_get(void)
{
    while (!(serial[5] & 1)) {}
    return serial[0];
}

static void serial_put(char byte)
{
    while (!(serial[5] & 0x20)) {}
    serial[0] = (uint8_t)byte;
}

#else /* CMSDK: data, state (1: output is full, 2: input is), control, interrupts, divider */

static volatile uint32_t *const serial = (volatile uint32_t *)(__ARM_ARCH >= 8 ? 0x49303000 : 0x40004000);

static void serial_begin(void) { serial[4] = 16, serial[2] = 3; }

static int serial_get(void)
{
    while (!(serial[1] & 2)) {}
    return (int)(serial[0] & 255);
}

static void serial_put(char byte)
{
    while (serial[1] & 1) {}
    serial[0] = (uint8_t)byte;
}

#endif
#endif
