/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVERS_RECORD_H
#define SERVERS_RECORD_H

/* What the next daemon has to know, in case this one dies (record.h). Loop thread. */

struct daemon;

/* WANT_RECORD: the set of servers, or what commands have set, has changed: records everything. */
void servers_record(struct daemon *daemon);

#endif
