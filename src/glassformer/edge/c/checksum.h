/* CRC-32 (ISO 3309) of bytes. */
#ifndef GF_CHECKSUM_H
#define GF_CHECKSUM_H

#include <stddef.h>

#include "simd.h"

static uint32_t checksum(const unsigned char *bytes, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

#endif
