/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SEND_H
#define SEND_H

/*
 * The senders of all messages.
 *
 * Made from proto/cuda.spec by proto/gen.py.
 */

#include "send_poke.h"
#include "send_thing.h"

#endif
