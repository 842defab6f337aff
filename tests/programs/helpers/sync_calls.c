/* SPDX-License-Identifier: Apache-2.0 */

/* The calls by their plain symbols. */

#include "sync_table.h"
