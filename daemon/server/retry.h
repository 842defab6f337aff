/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RETRY_H
#define RETRY_H

/* Actions that had to wait: starts of servers, hand-overs, the record. Loop thread. */

struct daemon;

/* Tries all of them again a little later. */
void retry_soon(struct daemon *daemon);

#endif
