/* SPDX-License-Identifier: Apache-2.0 */
#ifndef COMMANDER_H
#define COMMANDER_H

/*
 * A commander is a peer who sends text: commands, a line each, answered in
 * order until he closes his side. One command of his runs at a time; others'
 * run meanwhile.
 *
 * A line of nothing but EOT is answered by EOT: the front end sends it last,
 * and knows from the answer that all before was answered.
 *
 * After a line of nothing but NAK, the first reply to each command that fails
 * is preceded by a line "NAK COMMAND: REPLY" (without the blank). Other peers
 * see the reply alone. A quit that is done is answered by EOT then.
 */

#include "base.h"

struct peer;
struct tenant;

#define COMMAND_EOT '\x04'
#define COMMAND_NAK '\x15'

/* A stranger turns out to send text. */
void commander_read(struct peer *peer);

/* For peer.c: what to watch, and what came. */
int commander_events(const struct peer *peer);
void commander_on_event(struct peer *peer, int events);
void commander_on_deadline(struct peer *peer);
void commander_on_queued_deadline(struct peer *peer);

/* One of the tenant's has ended: the one that has been queued for longest begins, later. */
void commander_begin_next(struct tenant *tenant);

/* A line of the reply, logged too. */
void commander_reply(struct peer *peer, const char *format, ...) _printf_(2, 3);

/* The same, and the command has failed: it was refused, or did not do all that was asked. */
void commander_fail(struct peer *peer, const char *format, ...) _printf_(2, 3);

/* Text of any size and of one line; the log has its size. It may be NULL, which is nothing. */
void commander_reply_text(struct peer *peer, const char *text);

/* The command that it waited for has ended: goes on with the next line, later. */
void commander_resume(struct peer *peer);

#endif
