/* The activation of a feed-forward, chosen at run time. */
#ifndef GF_TEXT_ACTIVATION_H
#define GF_TEXT_ACTIVATION_H

#include "gelu.h"
#include "gelu_tanh.h"

enum { BY_GELU, BY_GELU_TANH, BY_RELU, BY_SILU };

INLINE vec activated(vec x, int kind)
{
    switch (kind) {
    case BY_GELU: return x * vec_normal(x).cdf;
    case BY_GELU_TANH: return x * vec_gate(x);
    case BY_RELU: return vec_select(vec_less(x, vec_all(0.0f)), vec_all(0.0f), x);
    default: return x / (vec_all(1.0f) + vec_exp(-x)); /* SiLU */
    }
}

#endif
