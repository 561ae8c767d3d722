/* Where attention weights can be seen while they are computed. A program that looks at them (desk.c) defines both macros
 * and includes the model's source; for any other they are empty, and cost nothing.
 * ATTENTION_QUERY: the query that follows.  ATTENTION_WEIGHTS: of head h, the weight of each of T keys is power * share. */
#ifndef GF_ATTENTION_HOOK_H
#define GF_ATTENTION_HOOK_H

#ifndef ATTENTION_QUERY
#define ATTENTION_QUERY(name, t)
#endif

#ifndef ATTENTION_WEIGHTS
#define ATTENTION_WEIGHTS(h, powers, share, T)
#endif

#endif
