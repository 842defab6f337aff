/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MANAGED_H
#define MANAGED_H

/*
 * Variables of __managed__, which are refused. Any thread.
 */

/* Says so of one. */
void managed_refused(const char *name);

#endif
