/* SPDX-License-Identifier: MIT */
#ifndef MODEL_SHIM_CK_PR_H
#define MODEL_SHIM_CK_PR_H

/*
 * Stands in front of ck's header in models: of ck_pr the library uses only
 * the pause of a spin loop (tools/check/pairs.py), and that lets others run.
 */

#include "engine.h"

#define ck_pr_stall() model_relax(MODEL_AT("stall"))

#endif /* MODEL_SHIM_CK_PR_H */
