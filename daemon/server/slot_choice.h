/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SLOT_CHOICE_H
#define SLOT_CHOICE_H

/*
 * An isolated program gets a slot of its own: one that asks for it, or that is in quarantine. Loop
 * thread.
 */

struct conn;
struct error_message;
struct slot;

/*
 * The slot that serves a client, by its HELLO. NULL with an error message: the
 * user has too many isolated programs, or there is no memory.
 */
struct slot *slot_choose(struct conn *client, struct error_message *error);

#endif
