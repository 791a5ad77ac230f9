/* SPDX-License-Identifier: MIT */
#ifndef MODEL_INTERLEAVE_H
#define MODEL_INTERLEAVE_H

/*
 * The words of lib/base/atomic.h on top of the engine: sources of lib/ that are
 * compiled with -DTRP_INTERLEAVE='"interleave.h"' run in a model as they are.
 * Variables are plain: the engine is their only access, and a raw one would not
 * be a step. Values travel as uintptr_t, see engine.h.
 */

#include "engine.h"

_Static_assert(sizeof(uintptr_t) == 8, "models need a 64-bit machine");

#define TRP_ATOMIC(type) __typeof__(type)

/* Also where *(p) is const: the comma drops the qualifier. */
#define MODEL_TYPE(p) __typeof__(((void)0, *(p)))
#define MODEL_WORD(v) ((uint64_t)(uintptr_t)(v))

#define MODEL_LOAD(p, name)                                                    \
    ((MODEL_TYPE(p))(uintptr_t)model_load((p), sizeof *(p), MODEL_AT(name)))
#define MODEL_STORE(p, v, drain, name)                                         \
    model_store((p), sizeof *(p), MODEL_WORD(v), (drain), MODEL_AT(name))
#define MODEL_CAS(p, expected, v, name)                                        \
    model_cas((p), sizeof *(p), (expected), MODEL_WORD(v), MODEL_AT(name))
/* A statement expression: its value may go unused. */
#define MODEL_RMW(p, v, function, name)                                        \
    __extension__({                                                            \
        (MODEL_TYPE(p))(uintptr_t)                                             \
            function((p), sizeof *(p), MODEL_WORD(v), MODEL_AT(name));         \
    })

#define trp_load_relaxed(p) MODEL_LOAD(p, "load_relaxed")
#define trp_load_acquire(p) MODEL_LOAD(p, "load_acquire")
#define trp_load_seq_cst(p) MODEL_LOAD(p, "load_seq_cst")

#define trp_store_relaxed(p, v) MODEL_STORE(p, v, false, "store_relaxed")
#define trp_store_release(p, v) MODEL_STORE(p, v, false, "store_release")
#define trp_store_seq_cst(p, v) MODEL_STORE(p, v, true, "store_seq_cst")

#define trp_swap_acq_rel(p, v) MODEL_RMW(p, v, model_swap, "swap_acq_rel")

#define trp_cas_acq_rel(p, expected, v) MODEL_CAS(p, expected, v, "cas_acq_rel")
#define trp_cas_seq_cst(p, expected, v) MODEL_CAS(p, expected, v, "cas_seq_cst")
#define trp_cas_relaxed(p, expected, v) MODEL_CAS(p, expected, v, "cas_relaxed")

#define trp_add_relaxed(p, v) MODEL_RMW(p, v, model_add, "add_relaxed")
#define trp_add_acq_rel(p, v) MODEL_RMW(p, v, model_add, "add_acq_rel")
#define trp_sub_relaxed(p, v)                                                  \
    MODEL_RMW(p, UINT64_C(0) - MODEL_WORD(v), model_add, "sub_relaxed")
#define trp_sub_acq_rel(p, v)                                                  \
    MODEL_RMW(p, UINT64_C(0) - MODEL_WORD(v), model_add, "sub_acq_rel")
#define trp_or_acq_rel(p, v) MODEL_RMW(p, v, model_or, "or_acq_rel")
#define trp_and_acq_rel(p, v) MODEL_RMW(p, v, model_and, "and_acq_rel")

#endif /* MODEL_INTERLEAVE_H */
