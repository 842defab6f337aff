/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOP_H
#define TOP_H

/* How mps-top is used, for its own messages and for the help of mps-control, which executes it. */

/* What follows the name, and the line of the help. */
#define TOP_USAGE " [--once] [--json] [-d SECONDS] [-n COUNT]"
#define TOP_HELP "show clients live: share of SMs, launches, copies, time at work; see mps-top(1)"

#endif
