/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Invariant: `at' is at most `size', and `fd_at' at most `n_fds'; descriptors before `fd_at' were
 * taken.
 */

#include "pack.h"

#include <string.h>
#include <sys/mman.h>

#include "shm.h"

void pack_fini(struct pack *pack)
{
	for (uint32_t i = pack->fd_at; i < pack->n_fds; i++)
		close(pack->fds[i]);
	free(pack->bytes);
	free(pack->fds);
	*pack = (struct pack){0};
}

static bool make_space(struct pack *pack, size_t size)
{
	size_t space = MAX(pack->space, (size_t)4096);
	uint8_t *larger;

	if (size > PACK_BYTES_MAX - pack->size)
		return false;
	while (space - pack->size < size)
		space *= 2;
	if (space == pack->space)
		return true;
	larger = realloc(pack->bytes, space);
	if (!larger)
		return false;
	pack->bytes = larger;
	pack->space = space;
	return true;
}

void pack_put(struct pack *pack, const void *bytes, size_t size)
{
	if (!make_space(pack, size)) {
		pack->is_bad = true;
		return;
	}
	memcpy(pack->bytes + pack->size, bytes, size);
	pack->size += size;
}

void pack_put_number(struct pack *pack, uint64_t value)
{
	pack_put(pack, &value, sizeof(value));
}

void pack_put_fd(struct pack *pack, int fd)
{
	uint32_t space = MAX(2 * pack->n_fds_space, 16u);
	int *larger = pack->fds;

	if (fd >= 0 && pack->n_fds == pack->n_fds_space && space <= PACK_FDS_MAX)
		larger = realloc(pack->fds, space * sizeof(*larger));
	if (fd < 0 || !larger || (pack->n_fds == pack->n_fds_space && space > PACK_FDS_MAX)) {
		closep(&fd);
		pack->is_bad = true;
		return;
	}
	if (larger != pack->fds || pack->n_fds == pack->n_fds_space)
		pack->n_fds_space = space;
	pack->fds = larger;
	pack->fds[pack->n_fds++] = fd;
}

bool pack_get(struct pack *pack, void *bytes, size_t size)
{
	if (size > pack->size - pack->at) {
		pack->is_bad = true;
		return false;
	}
	memcpy(bytes, pack->bytes + pack->at, size);
	pack->at += size;
	return true;
}

uint64_t pack_get_number(struct pack *pack, uint64_t max)
{
	uint64_t value = 0;

	if (!pack_get(pack, &value, sizeof(value)))
		return 0;
	if (value > max) {
		pack->is_bad = true;
		return 0;
	}
	return value;
}

int pack_get_fd(struct pack *pack)
{
	if (pack->fd_at == pack->n_fds) {
		pack->is_bad = true;
		return -EBADF;
	}
	return pack->fds[pack->fd_at++];
}

bool pack_is_used_up(const struct pack *pack)
{
	return !pack->is_bad && pack->at == pack->size && pack->fd_at == pack->n_fds;
}

int pack_store(const struct pack *pack, int *ret_fd)
{
	return pack->is_bad ? -ENOMEM
			    : shm_create_image("mps-moved", pack->bytes, pack->size, ret_fd);
}

int pack_load(struct pack *pack, int fd, uint64_t size)
{
	void *map;
	int r;

	if (size > PACK_BYTES_MAX)
		return -EBADMSG;
	r = shm_map_image(fd, size, &map);
	if (r < 0)
		return r;
	pack_put(pack, map, size);
	munmap(map, size);
	return pack->is_bad ? -ENOMEM : 0;
}
