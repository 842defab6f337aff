/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the file of a record. One thread.
 *
 * Invariant: before the first step, the sizes of all entries have been checked, in the private
 * copy.
 */

#include "record_script.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "async_close.h"
#include "record_file.h"
#include "spec_hash.h"

#define HEAD_SIZE ((uint32_t)sizeof(struct message_head))

struct record_script {
	uint8_t *bytes;
	size_t size, at;
	int fd;         /* owned: the file */
	int *image_fds; /* owned */
	uint32_t n_images;
	_Alignas(8) uint8_t message[MESSAGE_MAX];
};

static bool entry_ok(
	const struct record_script *script, size_t at, struct record_file_entry *ret_entry)
{
	const size_t left = script->size - at;
	const struct record_rule *rule;

	if (left < sizeof(*ret_entry))
		return false;
	memcpy(ret_entry, script->bytes + at, sizeof(*ret_entry));
	rule = record_rule(ret_entry->op);
	if (ret_entry->op == 0)
		return ret_entry->zero == 0 && ret_entry->image == 0 &&
		       ret_entry->answers_size == 0 && left >= ret_entry->size &&
		       ret_entry->size == sizeof(*ret_entry) + sizeof(struct record_note);
	return rule && ret_entry->zero == 0 && ret_entry->size <= left &&
	       ret_entry->size % 8 == 0 && ret_entry->image <= script->n_images &&
	       ret_entry->answers_size == record_answers_size(rule) &&
	       ret_entry->size >= sizeof(*ret_entry) + ret_entry->answers_size &&
	       ret_entry->size - sizeof(*ret_entry) - ret_entry->answers_size <=
		       MESSAGE_MAX - HEAD_SIZE;
}

static bool all_ok(struct record_script *script)
{
	struct record_file_head head;
	struct record_file_entry entry;
	uint32_t n = 0;

	if (script->size < sizeof(head))
		return false;
	memcpy(&head, script->bytes, sizeof(head));
	if (head.magic != RECORD_FILE_MAGIC || head.spec_hash != SPEC_HASH ||
		head.size != script->size || head.n_images != script->n_images || head.zero != 0)
		return false;
	for (size_t at = sizeof(head); at < script->size; at += entry.size, n++)
		if (!entry_ok(script, at, &entry))
			return false;
	script->at = sizeof(head);
	return n == head.n_entries;
}

static int read_bytes(struct record_script *script, int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	/* Entries are smaller in a file than in a record, but ends come in addition. */
	if (st.st_size < 0 || (uint64_t)st.st_size > 2ull * RECORD_MAX)
		return -EBADMSG;
	script->bytes = malloc((size_t)st.st_size + 1);
	if (!script->bytes)
		return -ENOMEM;
	while (script->size < (size_t)st.st_size) {
		ssize_t n = pread(fd, script->bytes + script->size,
			(size_t)st.st_size - script->size, (off_t)script->size);

		if (n <= 0)
			return n < 0 ? -errno : -EBADMSG;
		script->size += (size_t)n;
	}
	return 0;
}

int record_load(int fd, int *image_fds, uint32_t n_images, struct record_script **ret_script)
{
	struct record_script *script = calloc(1, sizeof(*script));
	int r;

	if (!script) {
		for (uint32_t i = 0; i < n_images; i++)
			async_close(image_fds[i]);
		free(image_fds);
		return -ENOMEM;
	}
	script->image_fds = image_fds;
	script->n_images = n_images;
	script->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	r = script->fd < 0 ? -errno : read_bytes(script, fd);
	if (r == 0 && !all_ok(script))
		r = -EBADMSG;
	if (r < 0)
		record_script_free(script);
	else
		*ret_script = script;
	return r;
}

int record_script_save(const struct record_script *script, struct record_saved *ret_saved)
{
	const size_t size = script->n_images * sizeof(int);
	struct record_saved saved = {
		.fd = fcntl(script->fd, F_DUPFD_CLOEXEC, 0), .n_images = script->n_images};

	*ret_saved = (struct record_saved){.fd = -EBADF};
	if (saved.fd < 0)
		return -errno;
	saved.image_fds = malloc(size + 1);
	if (!saved.image_fds) {
		record_saved_fini(&saved);
		return -ENOMEM;
	}
	memcpy(saved.image_fds, script->image_fds, size);
	*ret_saved = saved;
	return 0;
}

void record_script_free(struct record_script *script)
{
	if (!script)
		return;
	closep(&script->fd);
	for (uint32_t i = 0; i < script->n_images; i++)
		async_close(script->image_fds[i]);
	free(script->image_fds);
	free(script->bytes);
	free(script);
}

bool record_script_next(struct record_script *script, struct record_step *ret_step)
{
	struct record_file_entry entry;
	struct message_head head = {0};
	uint32_t size;

	if (script->at == script->size)
		return false;
	memcpy(&entry, script->bytes + script->at, sizeof(entry));
	*ret_step = (struct record_step){.rule = record_rule(entry.op), .image_fd = -1};
	if (entry.op == 0) {
		memcpy(script->message, script->bytes + script->at + sizeof(entry),
			sizeof(struct record_note));
		ret_step->note = (void *)script->message;
		script->at += entry.size;
		return true;
	}
	size = entry.size - (uint32_t)sizeof(entry) - entry.answers_size;
	head.size = HEAD_SIZE + size;
	head.op = entry.op;
	head.reply = ret_step->rule->is_sync ? 1 : 0;
	memcpy(script->message, &head, sizeof(head));
	memcpy(script->message + HEAD_SIZE, script->bytes + script->at + sizeof(entry), size);
	ret_step->head = (void *)script->message;
	ret_step->answers = script->bytes + script->at + entry.size - entry.answers_size;
	ret_step->image_fd = entry.image > 0 ? script->image_fds[entry.image - 1] : -1;
	script->at += entry.size;
	return true;
}

void record_script_rewind(struct record_script *script)
{
	script->at = sizeof(struct record_file_head);
}

bool record_step_is_same(const struct record_step *step, const void *body)
{
	const uint8_t *answers = step->answers;

	for (unsigned i = 0; i < step->rule->n_same; i++) {
		const struct record_span *span = &step->rule->same[i];

		if (memcmp(answers, (const uint8_t *)body + span->at, span->size) != 0)
			return false;
		answers += span->size;
	}
	return true;
}
