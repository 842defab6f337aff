/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATE_TEXT_H
#define STATE_TEXT_H

/*
 * What the operator has set by commands, as lines of text for the record
 * (record.h): partitions, groups, named servers and namespaces, limits of the defaults and of
 * servers. Loop thread.
 *
 *     default LIMITS
 *     feature NAME               one that is off
 *     server PID LIMITS
 *     group NAME UID LIMITS      UID: a number, or -
 *     named SERVER UID GPUS      GPUS: as CUDA_VISIBLE_DEVICES takes them, or -
 *     namespace SERVER UID NAME LIMITS
 *     partition UUID CHUNKS      both hexadecimal
 *     sm-partition SERVER UID UUID CHUNKS NAME MAX SHAREABLE NAMESPACE...
 *
 * LIMITS are the share in thousandths of a percent, the priority, and for each
 * memory limit the GPU and the bytes.
 */

struct daemon;
struct server_watch;

/* NULL without memory. The caller frees it. "": nothing is set. */
char *state_text_format(const struct daemon *daemon);

/* Sets what the text says. A line that is malformed or not known has no effect. */
void state_text_parse(struct daemon *daemon, char *text);

/* WANT_RECORD: the set of servers, or what commands have set, has changed: records everything. */
void servers_record(struct daemon *daemon);

/* Records each server when it has been started. */
extern const struct server_watch record_watch;

#endif
