/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ALIAS_RUN_H
#define ALIAS_RUN_H

/* Aliases, their runs of VA windows and their files, for alias.c and alias_move.c. */

#include "alias.h"
#include "fd_kind.h"
#include "server/stream/fence.h"

struct pack;

/* An alias begins at a multiple of this, and at a page of its file. */
#define ALIAS_SLOT_SHIFT 21
#define ALIAS_SLOT (1ull << ALIAS_SLOT_SHIFT)

struct alias_file {
	struct alias_file *next;
	int fd;
	uint32_t n_aliases;
	uint64_t number;       /* in a pack */
	struct fd_facts facts; /* when it was first registered */
};

struct alias {
	struct alias *next_closing;
	struct alias_run *run;
	struct alias_file *file;
	uint64_t offset;      /* of `start' in the file */
	uint64_t address;     /* in the client: in the first page */
	uint64_t start, span; /* whole pages of the file */
	struct fence fence;   /* for one that is closing */
	bool is_closing;
};

struct alias_run {
	struct alias_run *next;
	uint64_t base, size;
	uint32_t va_window, n_va_windows; /* the first one; how many */
	uint32_t n_aliases;
	struct alias *slots[];
};

static inline bool alias_page_ok(uint64_t page)
{
	return page > 0 && (page & (page - 1)) == 0 && page <= 1ull << 30;
}

/* At or after window `from'. NULL: there is no memory, or there are no such windows. */
struct alias_run *alias_run_new(struct session *session, uint64_t size, uint32_t from);

/* Takes `fd'. NULL: there is no memory. */
struct alias_file *alias_file_new(struct session *session, int fd, const struct fd_facts *facts);

/* An alias without an address. On failure a file without an alias is freed. NULL: no memory. */
struct alias *alias_new(struct session *session, struct alias_file *file, uint64_t span);

/* Maps and pins the alias at its address. Frees it on failure. */
CUresult alias_fill(struct session *session, struct alias *alias);

/* Functions of aliases_part. (alias_move.c) */
const char *aliases_stay(const struct session *session);
int aliases_pack(struct session *session, struct pack *pack);
int aliases_check(struct session *session, struct pack *pack);
int aliases_unpack(struct session *session, struct pack *pack);

#endif
