/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Aliases on their way to another server, which maps the same files at the same addresses. A
 * worker, or the thread of server/arrival.c.
 *
 * Invariant: the client may change the size of a file at any time. So no check relies on it, and a
 * file that has become too small ends its client alone, when its pages cannot be pinned.
 */

#include <fcntl.h>

#include "alias_run.h"
#include "server/util/bitmap.h"
#include "server/util/pack.h"
#include "server/session/session.h"
#include "server/session/session_part.h"
#include "server/driver/owner.h"
#include "server/share/session_device.h"

#define WINDOWS ((HOST_SPACE_END - HOST_SPACE) / VA_WINDOW)

/* The next alias that its client has not ended, from `*at' on. NULL: there is none. */
static const struct alias *next_alias(const struct alias_run *run, uint64_t *at)
{
	while (*at < run->size >> ALIAS_SLOT_SHIFT) {
		const struct alias *alias = run->slots[*at];

		*at += alias ? ALIGN_UP(alias->span, ALIAS_SLOT) >> ALIAS_SLOT_SHIFT : 1;
		if (alias && !alias->is_closing)
			return alias;
	}
	return NULL;
}

static uint64_t count_aliases(const struct alias_run *run)
{
	uint64_t n = 0, at = 0;

	while (next_alias(run, &at))
		n++;
	return n;
}

/* Another server could not pin pages that are not there any more. */
static bool is_whole(const struct alias *alias)
{
	struct fd_facts facts;

	return fd_facts(alias->file->fd, &facts) == 0 &&
	       alias->offset + alias->span <= ALIGN_UP(facts.size, alias->file->facts.page);
}

const char *aliases_stay(const struct session *session)
{
	for (const struct alias_run *run = session->aliases->runs; run; run = run->next) {
		const struct alias *alias;
		uint64_t at = 0;

		while ((alias = next_alias(run, &at)))
			if (!is_whole(alias))
				return "a file of its registered host memory has become smaller";
	}
	return NULL;
}

/* ---- into the pack */

static void run_pack(const struct alias_run *run, struct pack *pack)
{
	const struct alias *alias;
	uint64_t at = 0;

	pack_put_number(pack, run->base);
	pack_put_number(pack, run->size);
	pack_put_number(pack, count_aliases(run));
	while ((alias = next_alias(run, &at))) {
		pack_put_number(pack, alias->file->number);
		pack_put_number(pack, alias->offset);
		pack_put_number(pack, alias->start - run->base);
		pack_put_number(pack, alias->span);
		pack_put_number(pack, alias->address - alias->start);
	}
}

int aliases_pack(struct session *session, struct pack *pack)
{
	struct alias_file *file;
	const struct alias_run *run;
	uint64_t n = 0;

	for (file = session->aliases->files; file; file = file->next)
		file->number = n++;
	pack_put_number(pack, n);
	for (file = session->aliases->files; file; file = file->next)
		pack_put_fd(pack, fcntl(file->fd, F_DUPFD_CLOEXEC, 0));
	n = 0;
	for (run = session->aliases->runs; run; run = run->next)
		n += count_aliases(run) > 0;
	pack_put_number(pack, n);
	for (run = session->aliases->runs; run; run = run->next)
		if (count_aliases(run) > 0)
			run_pack(run, pack);
	return pack->is_bad ? -EMFILE : 0;
}

/* ---- out of it */

/* The files of a pack; the list is on the account. */
struct packed_files {
	struct packed_file {
		int fd;
		struct fd_facts facts;
		struct alias_file *file; /* NULL: it has no alias yet */
	} * of;
	uint64_t n;
};

struct packed_run {
	uint64_t base, size, n_aliases;
	uint64_t end; /* of the aliases before: from the run's base */
};

struct packed_alias {
	uint64_t file, offset, start, span, in_page;
};

static int files_read(struct session *session, struct pack *pack, struct packed_files *files)
{
	files->n = pack_get_number(pack, pack->n_fds - pack->fd_at);
	if (pack->is_bad)
		return -EBADMSG;
	files->of = account_alloc(session->account, (files->n + 1) * sizeof(*files->of), 0);
	if (!files->of)
		return -ENOMEM;
	for (uint64_t i = 0; i < files->n; i++)
		files->of[i].fd = pack_get_fd(pack);
	for (uint64_t i = 0; i < files->n; i++) {
		struct packed_file *file = &files->of[i];

		if (fd_kind(file->fd) != FD_MEMORY || fd_facts(file->fd, &file->facts) < 0 ||
			!alias_page_ok(file->facts.page))
			return -EBADMSG;
	}
	return 0;
}

static int run_read(struct pack *pack, struct packed_run *run)
{
	*run = (struct packed_run){
		.base = pack_get_number(pack, HOST_SPACE_END),
		.size = pack_get_number(pack, HOST_SPACE_END - HOST_SPACE),
		.n_aliases = pack_get_number(pack, UINT32_MAX),
	};
	return run->base < HOST_SPACE || run->base % VA_WINDOW || run->size == 0 ||
			       run->size % VA_WINDOW || run->size > HOST_SPACE_END - run->base ||
			       run->n_aliases == 0
		       ? -EBADMSG
		       : 0;
}

/* Aliases of a run come in the order of their addresses. */
static int alias_read(struct pack *pack, const struct packed_files *files, struct packed_run *run,
	struct packed_alias *alias)
{
	uint64_t page;

	*alias = (struct packed_alias){
		.file = pack_get_number(pack, files->n),
		.offset = pack_get_number(pack, INT64_MAX),
		.start = pack_get_number(pack, run->size),
		.span = pack_get_number(pack, run->size),
		.in_page = pack_get_number(pack, run->size),
	};
	if (pack->is_bad || alias->file == files->n)
		return -EBADMSG;
	page = files->of[alias->file].facts.page;
	if (alias->start % MAX(page, ALIAS_SLOT) || alias->start < run->end || alias->span == 0 ||
		alias->span % page || alias->span > run->size - alias->start ||
		alias->offset % page || alias->offset > INT64_MAX - alias->span ||
		alias->in_page >= page)
		return -EBADMSG;
	run->end = ALIGN_UP(alias->start + alias->span, ALIAS_SLOT);
	return 0;
}

/* The windows of a run are of no other one: `taken' has a bit for each. */
static int run_check(struct pack *pack, const struct packed_files *files, uint64_t *taken)
{
	struct packed_run run;
	struct packed_alias alias;
	int r = run_read(pack, &run);

	for (uint64_t at = 0; r == 0 && at < run.size; at += VA_WINDOW) {
		uint32_t window = (uint32_t)((run.base + at - HOST_SPACE) / VA_WINDOW);

		r = bit_get(taken, window) ? -EBADMSG : 0;
		bit_set(taken, window, true);
	}
	for (uint64_t i = 0; r == 0 && i < run.n_aliases; i++)
		r = alias_read(pack, files, &run, &alias);
	return r;
}

int aliases_check(struct session *session, struct pack *pack)
{
	uint64_t taken[BITS_WORDS(WINDOWS)] = {0}, n;
	struct packed_files files = {0};
	int r = files_read(session, pack, &files);

	n = r == 0 ? pack_get_number(pack, WINDOWS) : 0;
	for (uint64_t i = 0; r == 0 && i < n; i++)
		r = run_check(pack, &files, taken);
	account_free(files.of);
	return pack->is_bad ? -EBADMSG : r;
}

static int alias_unpack(struct session *session, struct alias_run *run,
	const struct packed_alias *packed, struct packed_file *file)
{
	struct alias *alias;

	if (!file->file)
		file->file = alias_file_new(session, TAKE_FD(file->fd), &file->facts);
	alias = file->file ? alias_new(session, file->file, packed->span) : NULL;
	if (!alias)
		return -ENOMEM;
	alias->run = run;
	alias->offset = packed->offset;
	alias->start = run->base + packed->start;
	alias->address = alias->start + packed->in_page;
	return alias_fill(session, alias) == CUDA_SUCCESS ? 0 : -EIO;
}

/* A run that has got no alias does not stay. */
static int run_unpack(struct session *session, struct pack *pack, const struct packed_files *files)
{
	struct packed_run packed;
	struct packed_alias alias;
	struct alias_run *run;
	int r = run_read(pack, &packed);

	if (r < 0)
		return r;
	run = alias_run_new(session, packed.size, owner_va_window(packed.base));
	if (!run)
		return -ENOMEM;
	if (run->base != packed.base)
		r = -EADDRINUSE;
	for (uint64_t i = 0; r == 0 && i < packed.n_aliases; i++) {
		r = alias_read(pack, files, &packed, &alias);
		if (r == 0)
			r = alias_unpack(session, run, &alias, &files->of[alias.file]);
	}
	return r;
}

int aliases_unpack(struct session *session, struct pack *pack)
{
	struct packed_files files = {0};
	int r = files_read(session, pack, &files);
	const uint64_t n = r == 0 ? pack_get_number(pack, WINDOWS) : 0;

	if (n > 0)
		session_device_enter_any(session);
	for (uint64_t i = 0; r == 0 && i < n; i++)
		r = run_unpack(session, pack, &files);
	/* Those without an alias. */
	for (uint64_t i = 0; i < files.n && files.of; i++)
		closep(&files.of[i].fd);
	account_free(files.of);
	return pack->is_bad ? -EBADMSG : r;
}
