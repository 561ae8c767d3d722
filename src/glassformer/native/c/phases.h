/* Work in phases, shared out to threads.
 *
 * A phase has items, which threads take as they are free; the next one begins when all of them are done. So nobody waits
 * for a thread that has nothing in hand, and what is computed depends on the items alone: not on the number of threads,
 * nor on who was late. A thread that finds nothing to take looks for a moment, then sleeps: on a busy machine somebody
 * else needs its core, and the one it waits for may be that one. */
#ifndef GF_PHASES_H
#define GF_PHASES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

enum { MOST_THREADS = 256, MOST_ITEMS = 4096, SPIN_NS = 10000 };

typedef struct {
    void *work;
    int (*items)(void *work, int phase);                        /* how many a phase has; 0: all is done */
    void (*take)(void *work, int thread, int phase, int item);  /* do one of them */
    int threads;
    atomic_int phase, done;                                     /* the one under way, and how many of its items are done */
    atomic_int taken[MOST_ITEMS];                               /* 1 + the last phase in which somebody took this one */
    atomic_int asleep;                                          /* threads */
    pthread_mutex_t lock;
    pthread_cond_t begun;                                       /* the next phase has */
} phases;

static inline void spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline int64_t nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void wait_for_next(phases *all, int phase)
{
    for (const int64_t begin = nanoseconds(); nanoseconds() - begin < SPIN_NS;)
        for (int i = 0; i < 16; i++, spin_pause())
            if (atomic_load(&all->phase) != phase) return;
    pthread_mutex_lock(&all->lock);
    atomic_fetch_add(&all->asleep, 1);
    while (atomic_load(&all->phase) == phase) pthread_cond_wait(&all->begun, &all->lock);
    atomic_fetch_sub(&all->asleep, 1);
    pthread_mutex_unlock(&all->lock);
}

static inline void begin_phase(phases *all, int phase)
{
    atomic_store(&all->done, 0);
    atomic_store(&all->phase, phase);
    if (atomic_load(&all->asleep)) {
        pthread_mutex_lock(&all->lock);
        pthread_cond_broadcast(&all->begun);
        pthread_mutex_unlock(&all->lock);
    }
}

/* Whether this item is ours now. Of a phase that is over all have been taken. */
static inline int take_item_of(phases *all, int phase, int item)
{
    int before = atomic_load(&all->taken[item]);
    return before <= phase && atomic_compare_exchange_strong(&all->taken[item], &before, phase + 1);
}

/* Each thread begins at a place of its own, so that on an idle machine it meets the memory that it had in its cache. */
static inline void take_items(phases *all, int thread)
{
    for (int phase, items; (items = all->items(all->work, phase = atomic_load(&all->phase)));) {
        const int begin = (int)((int64_t)items * thread / all->threads);
        for (int i = 0; i < items && atomic_load(&all->phase) == phase; i++) {
            const int item = begin + i < items ? begin + i : begin + i - items;
            if (!take_item_of(all, phase, item)) continue;
            all->take(all->work, thread, phase, item);
            if (atomic_fetch_add(&all->done, 1) + 1 == items) begin_phase(all, phase + 1);
        }
        wait_for_next(all, phase);
    }
}

typedef struct {
    phases *all;
    int thread;
} phase_worker;

static void *phase_thread(void *argument)
{
    const phase_worker *own = argument;
    take_items(own->all, own->thread);
    return NULL;
}

/* All phases, on this thread and up to `threads` - 1 others: as many as can be had. */
static inline void in_phases(void *work, int (*items)(void *, int), void (*take)(void *, int, int, int), int threads)
{
    phases all = {.work = work, .items = items, .take = take, .threads = threads < 1 ? 1 : threads};
    pthread_t others[MOST_THREADS];
    phase_worker workers[MOST_THREADS];
    int there = 1;
    pthread_mutex_init(&all.lock, NULL);
    pthread_cond_init(&all.begun, NULL);
    for (; there < threads && there < MOST_THREADS; there++) {
        workers[there] = (phase_worker){&all, there};
        if (pthread_create(&others[there], NULL, phase_thread, &workers[there])) break;
    }
    take_items(&all, 0);
    for (int t = 1; t < there; t++) pthread_join(others[t], NULL);
    pthread_cond_destroy(&all.begun);
    pthread_mutex_destroy(&all.lock);
}

/* Slice `part` of `parts` of n things: [*from, *to). */
static inline void share_out(int n, int part, int parts, int *from, int *to)
{
    *from = (int)((int64_t)n * part / parts);
    *to = (int)((int64_t)n * (part + 1) / parts);
}

#endif
