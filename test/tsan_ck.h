/* Replacement of CK's ck_pr primitives by compiler __atomic builtins, so that
   TSan (and coverage/other instrumenters) see them. Force-include BEFORE any ck
   header: -include tsan_ck.h  -DCK_USE_CC_BUILTINS=1 Loads are acquire, stores
   are release, RMW are seq_cst: the x86-TSO guarantees. */
#ifndef TSAN_CK_H
#define TSAN_CK_H
#ifndef CK_USE_CC_BUILTINS
#define CK_USE_CC_BUILTINS 1
#endif
#define CK_F_PR 1 /* skip the generic bodies in gcc/ck_pr.h */
#include <ck_cc.h>
#include <ck_limits.h>
#include <ck_md.h>
#include <ck_stdbool.h>
#include <ck_stdint.h>
#include <gcc/ck_f_pr.h> /* the list of supported operations */
#define S_(S, T)                                                               \
    CK_CC_INLINE static T ck_pr_md_load_##S(const T *p)                        \
    {                                                                          \
        return __atomic_load_n(p, __ATOMIC_ACQUIRE);                           \
    }                                                                          \
    CK_CC_INLINE static void ck_pr_md_store_##S(T *p, T v)                     \
    {                                                                          \
        __atomic_store_n(p, v, __ATOMIC_RELEASE);                              \
    }                                                                          \
    CK_CC_INLINE static bool ck_pr_cas_##S(T *p, T c, T s)                     \
    {                                                                          \
        return __atomic_compare_exchange_n(                                    \
            p, &c, s, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
    }                                                                          \
    CK_CC_INLINE static bool ck_pr_cas_##S##_value(T *p, T c, T s, T *v)       \
    {                                                                          \
        bool r = __atomic_compare_exchange_n(                                  \
            p, &c, s, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);              \
        *v = c;                                                                \
        return r;                                                              \
    }                                                                          \
    CK_CC_INLINE static T ck_pr_faa_##S(T *p, T d)                             \
    {                                                                          \
        return __atomic_fetch_add(p, d, __ATOMIC_SEQ_CST);                     \
    }                                                                          \
    CK_CC_INLINE static void ck_pr_add_##S(T *p, T d)                          \
    {                                                                          \
        (void)__atomic_fetch_add(p, d, __ATOMIC_SEQ_CST);                      \
    }                                                                          \
    CK_CC_INLINE static void ck_pr_sub_##S(T *p, T d)                          \
    {                                                                          \
        (void)__atomic_fetch_sub(p, d, __ATOMIC_SEQ_CST);                      \
    }                                                                          \
    CK_CC_INLINE static void ck_pr_and_##S(T *p, T d)                          \
    {                                                                          \
        (void)__atomic_fetch_and(p, d, __ATOMIC_SEQ_CST);                      \
    }                                                                          \
    CK_CC_INLINE static void ck_pr_or_##S(T *p, T d)                           \
    {                                                                          \
        (void)__atomic_fetch_or(p, d, __ATOMIC_SEQ_CST);                       \
    }                                                                          \
    CK_CC_INLINE static void ck_pr_xor_##S(T *p, T d)                          \
    {                                                                          \
        (void)__atomic_fetch_xor(p, d, __ATOMIC_SEQ_CST);                      \
    }                                                                          \
    CK_CC_INLINE static void ck_pr_inc_##S(T *p)                               \
    {                                                                          \
        (void)__atomic_fetch_add(p, (T)1, __ATOMIC_SEQ_CST);                   \
    }                                                                          \
    CK_CC_INLINE static void ck_pr_dec_##S(T *p)                               \
    {                                                                          \
        (void)__atomic_fetch_sub(p, (T)1, __ATOMIC_SEQ_CST);                   \
    }
/* Calls without a semicolon: */
/* clang-format off */
S_(char, char)
S_(uint, unsigned int)
S_(int, int) S_(64, uint64_t) S_(32, uint32_t) S_(16, uint16_t) S_(8, uint8_t)
/* clang-format on */
#undef S_
    CK_CC_INLINE static void *ck_pr_md_load_ptr(const void *p)
{
    return __atomic_load_n((void *const *)p, __ATOMIC_ACQUIRE);
}
CK_CC_INLINE static void
ck_pr_md_store_ptr(void *p, const void *v)
{
    __atomic_store_n((void **)p, (void *)(uintptr_t)v, __ATOMIC_RELEASE);
}
CK_CC_INLINE static bool
ck_pr_cas_ptr(void *p, void *c, void *s)
{
    return __atomic_compare_exchange_n(
        (void **)p, &c, s, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
CK_CC_INLINE static bool
ck_pr_cas_ptr_value(void *p, void *c, void *s, void *v)
{
    bool r = __atomic_compare_exchange_n(
        (void **)p, &c, s, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    *(void **)v = c;
    return r;
}
CK_CC_INLINE static void *
ck_pr_faa_ptr(void *p, uintptr_t d)
{
    return (void *)__atomic_fetch_add((uintptr_t *)p, d, __ATOMIC_SEQ_CST);
}
#ifndef CK_PR_DISABLE_DOUBLE
CK_CC_INLINE static double
ck_pr_md_load_double(const double *p)
{
    double r;
    __atomic_load(p, &r, __ATOMIC_ACQUIRE);
    return r;
}
CK_CC_INLINE static void
ck_pr_md_store_double(double *p, double v)
{
    __atomic_store(p, &v, __ATOMIC_RELEASE);
}
#endif
CK_CC_INLINE static void
ck_pr_stall(void)
{
    __asm__ __volatile__("" ::: "memory");
}
#define F_(T)                                                                  \
    CK_CC_INLINE static void ck_pr_fence_strict_##T(void)                      \
    {                                                                          \
        __sync_synchronize();                                                  \
    }
/* clang-format off */
F_(atomic)
F_(atomic_atomic)
F_(atomic_load) F_(atomic_store) F_(store_atomic) F_(load_atomic) F_(load)
    F_(load_load) F_(load_store) F_(store) F_(store_store) F_(store_load)
        F_(memory) F_(acquire) F_(release) F_(acqrel) F_(lock) F_(unlock)
/* clang-format on */
#undef F_
#include <ck_pr.h>
#endif
