/* Threads that work on one thing: they share it out by their numbers, and wait for each other. */
#ifndef GF_BARRIER_H
#define GF_BARRIER_H

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct {
    atomic_uint arrived, round;
    unsigned size;
    int patience; /* how often one looks for the others before it lets somebody else run */
} barrier;

/* Wait until all threads are here. They are microseconds apart: looking again and again is quicker than sleeping. But
 * where threads outnumber cores, the ones waited for must get their turn. */
static inline void barrier_wait(barrier *all)
{
    if (all->size == 1) return;
    const unsigned round = atomic_load(&all->round);
    if (atomic_fetch_add(&all->arrived, 1) + 1 == all->size) {
        atomic_store(&all->arrived, 0);
        atomic_fetch_add(&all->round, 1);
        return;
    }
    for (int looks = 0; atomic_load(&all->round) == round;) {
        if (looks < all->patience) looks++;
        else sched_yield();
    }
}

/* Slice `part` of `parts` of n things: [*from, *to). */
static inline void share_out(int n, int part, int parts, int *from, int *to)
{
    *from = (int)((int64_t)n * part / parts);
    *to = (int)((int64_t)n * (part + 1) / parts);
}

#endif
