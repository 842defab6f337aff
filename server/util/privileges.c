/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Changes the user of this process. Main thread, before anything else: no open library can
 * keep a privilege yet.
 *
 * Invariant: after privileges_take() every user and group ID is the user's, and none can be
 * changed back.
 */

#include "privileges.h"

#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/prctl.h>

#include "base.h"
#include "log.h"

/* The kernel's group without rights: no client has told the group of a user without an entry. */
#define OVERFLOW_GID 65534

static int privileges_fail(const char *what, uid_t uid, int r)
{
	log_line("Cannot become user %d: %s: %s. The daemon must run as root, or as that user",
		(int)uid, what, strerrordesc_np(-r));
	return r;
}

static int take_groups(const struct passwd *entry, uid_t uid, gid_t gid)
{
	int r;

	if (entry)
		r = initgroups(entry->pw_name, gid);
	else
		r = setgroups(1, &gid);
	if (r < 0)
		return privileges_fail("groups", uid, -errno);
	if (setresgid(gid, gid, gid) < 0)
		return privileges_fail("setresgid", uid, -errno);
	return 0;
}

static int privileges_check(uid_t uid, gid_t gid)
{
	uid_t ruid, euid, suid;
	gid_t rgid, egid, sgid;

	if (getresuid(&ruid, &euid, &suid) < 0 || getresgid(&rgid, &egid, &sgid) < 0)
		return privileges_fail("getresuid", uid, -errno);
	if (ruid != uid || euid != uid || suid != uid || rgid != gid || egid != gid || sgid != gid)
		return privileges_fail("the IDs did not change", uid, -EPERM);
	if (uid != 0 && setuid(0) == 0)
		return privileges_fail("the process can become root again", uid, -EPERM);
	return 0;
}

int privileges_take(uid_t uid, gid_t gid, bool is_multiuser)
{
	const struct passwd *entry = getpwuid(uid);
	int r;

	if (entry)
		gid = entry->pw_gid;
	else if (gid == (gid_t)-1)
		gid = OVERFLOW_GID;
	setenv("HOME", entry && entry->pw_dir ? entry->pw_dir : "/", 1);
	/* A daemon that is not root serves its own user: there is nothing to change. */
	if (geteuid() != 0 && getuid() == uid && geteuid() == uid)
		gid = getgid();
	else if ((r = take_groups(entry, uid, gid)) < 0)
		return r;
	if (setresuid(uid, uid, uid) < 0)
		return privileges_fail("setresuid", uid, -errno);
	r = privileges_check(uid, gid);
	if (r < 0)
		return r;
	/*
	 * The change of IDs cleared this flag. Debuggers of the same user may attach, unless this
	 * process holds memory of other users' programs.
	 */
	prctl(PR_SET_DUMPABLE, !is_multiuser, 0, 0, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return 0;
}
