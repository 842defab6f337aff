/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compute modes, and the claims that processes have on a device.
 *
 * Runs in any thread, under the driver's lock. The mode is read again each time,
 * because a test may change it while programs run. A process with a context holds
 * a shared lock on a file of the device. In exclusive mode, a process gets its first
 * lock only if it can have an exclusive lock. The kernel releases the lock when the
 * process dies.
 */

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "driver.h"

static bool word_is(const char *word, size_t len, const char *name)
{
	return strlen(name) == len && strncmp(word, name, len) == 0;
}

static CUcomputemode mode_named(const char *word, size_t len)
{
	if (word_is(word, len, "0") || word_is(word, len, "default"))
		return CU_COMPUTEMODE_DEFAULT;
	if (word_is(word, len, "2") || word_is(word, len, "prohibited"))
		return CU_COMPUTEMODE_PROHIBITED;
	if (word_is(word, len, "3") || word_is(word, len, "exclusive"))
		return CU_COMPUTEMODE_EXCLUSIVE_PROCESS;
	fprintf(stderr, "softgpu: compute mode '%.*s' is not 0, 2 or 3; 0 is used\n", (int)len,
		word);
	return CU_COMPUTEMODE_DEFAULT;
}

/* The last mode of a list holds for all further devices. */
static CUcomputemode mode_of_list(const char *list, int ordinal)
{
	size_t len = strcspn(list, ",\n");

	for (; ordinal > 0 && list[len] == ','; ordinal--) {
		list += len + 1;
		len = strcspn(list, ",\n");
	}
	return mode_named(list, len);
}

/* False: the file is missing or empty. */
static bool list_from_file(char *list, size_t size)
{
	const char *path = getenv("SOFTGPU_COMPUTE_MODE_FILE");
	_cleanup_close_ int fd = path && *path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n = fd >= 0 ? read(fd, list, size - 1) : -1;

	if (n <= 0)
		return false;
	list[n] = '\0';
	return true;
}

CUcomputemode device_compute_mode(const struct device *device)
{
	const char *setting = getenv("SOFTGPU_COMPUTE_MODE");
	char list[256];

	if (list_from_file(list, sizeof(list)))
		return mode_of_list(list, device->ordinal);
	return setting && *setting ? mode_of_list(setting, device->ordinal)
				   : CU_COMPUTEMODE_DEFAULT;
}

/* The file may belong to another user, who created it first: it is only locked. */
int device_lock_open(const struct device *device, const char *name)
{
	const char *dir = getenv("SOFTGPU_DIR");
	char path[4096];
	int fd, len;

	len = snprintf(path, sizeof(path), "%s/softgpu-%d.%s", dir && *dir ? dir : "/tmp",
		device->ordinal, name);
	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	return fd < 0 ? -errno : fd;
}

/* An exclusive lock shows that there is no other process; the shared lock keeps the next out. */
static CUresult claim_exclusive(struct device *device)
{
	_cleanup_close_ int fd = device_lock_open(device, "lock");

	if (fd < 0) {
		fprintf(stderr, "softgpu: cannot open the lock of device %d in SOFTGPU_DIR: %s\n",
			device->ordinal, strerror(-fd));
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	}
	if (flock(fd, LOCK_EX | LOCK_NB) < 0 || flock(fd, LOCK_SH | LOCK_NB) < 0)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	device->lock_fd = TAKE_FD(fd);
	return CUDA_SUCCESS;
}

/*
 * The claim matters to processes that start after a change to exclusive mode. Without SOFTGPU_DIR,
 * a test has no such processes, and files would remain in /tmp.
 */
static void claim_shared(struct device *device)
{
	const char *dir = getenv("SOFTGPU_DIR");
	_cleanup_close_ int fd = dir && *dir ? device_lock_open(device, "lock") : -1;

	if (fd >= 0 && flock(fd, LOCK_SH) == 0)
		device->lock_fd = TAKE_FD(fd);
}

CUresult device_claim(struct device *device)
{
	const CUcomputemode mode = device_compute_mode(device);
	CUresult result = CUDA_SUCCESS;

	if (mode == CU_COMPUTEMODE_PROHIBITED)
		return CUDA_ERROR_DEVICE_UNAVAILABLE;
	if (device->n_contexts == 0 && mode == CU_COMPUTEMODE_EXCLUSIVE_PROCESS)
		result = claim_exclusive(device);
	else if (device->n_contexts == 0)
		claim_shared(device);
	if (result == CUDA_SUCCESS)
		device->n_contexts++;
	return result;
}

void device_unclaim(struct device *device)
{
	if (--device->n_contexts > 0 || device->lock_fd < 0)
		return;
	close(device->lock_fd);
	device->lock_fd = -EBADF;
}
