/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What settings of the environment, the file, users and commands come to: what a server is told
 * about a client, what commands reply, and what a reload changes.
 */

#include <stdio.h>
#include <string.h>

#include "base.h"
#include "rows.h"
#include "scene.h"

#define SHARE "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
#define MEMORY "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
#define PRIORITY "CUDA_MPS_CLIENT_PRIORITY"

/* The values of sections that set all three. */
#define HALF "active_thread_percentage = 50\ndevice_pinned_mem_limit = 0=2G\nclient_priority = 1\n"
#define LESS "active_thread_percentage = 20\ndevice_pinned_mem_limit = 0=1G\nclient_priority = 2\n"
#define MORE "active_thread_percentage = 80\ndevice_pinned_mem_limit = 0=3G\nclient_priority = 0\n"

static const struct row {
	const char *rule;
	const char *environment[4], *file; /* of the daemon */
	const char *script;                /* NULL: a client and its server */
	const char *next_file, *after;     /* a file that replaces it, and what follows */
	/* What is checked: */
	const char *limits;  /* "A1 50% 2G 1": SMs, memory, priority */
	const char *reply;   /* to the last command */
	const char *verdict; /* of the scene */
	const char *says;    /* in control.log */
} rows[] = {
	/* ---- the layers */
	{"nothing is limited", .limits = "A1 100% - 0"},
	{"the environment sets the share", {SHARE "=40"}, .limits = "A1 40% - 0"},
	{"... the memory", {MEMORY "=0=1G"}, .limits = "A1 100% 1G 0"},
	{"... the priority", {PRIORITY "=1"}, .limits = "A1 100% - 1"},
	{"[default] sets the share", .file = "[default]\nactive_thread_percentage = 50\n",
		.limits = "A1 50% - 0"},
	{"... the memory", .file = "[default]\ndevice_pinned_mem_limit = 0=1G\n",
		.limits = "A1 100% 1G 0"},
	{"... the priority", .file = "[default]\nclient_priority = 2\n", .limits = "A1 100% - 2"},
	{"the environment goes before [default]: the share", {SHARE "=40"}, "[default]\n" HALF,
		.limits = "A1 40% 2G 1",
		.says = "line 2: active_thread_percentage has no effect, as " SHARE " is set"},
	{"... the memory", {MEMORY "=0=9G"}, "[default]\n" HALF, .limits = "A1 50% 9G 1",
		.says = "line 3: device_pinned_mem_limit has no effect, as " MEMORY " is set"},
	{"... the priority", {PRIORITY "=0"}, "[default]\n" HALF, .limits = "A1 50% 2G 0",
		.says = "line 4: client_priority has no effect, as " PRIORITY " is set"},
	{"[user] goes before [default]", .file = "[default]\n" LESS "[user 1000]\n" HALF,
		.limits = "A1 50% 2G 1"},
	{"... each key by itself", .file = "[default]\n" HALF "[user 1000]\nclient_priority = 2\n",
		.limits = "A1 50% 2G 2"},
	{"... and before the environment", {SHARE "=40", MEMORY "=0=9G", PRIORITY "=2"},
		"[user 1000]\n" HALF, .limits = "A1 50% 2G 1"},
	{"... for that user only", .file = "[default]\n" LESS "[user 1001]\n" HALF,
		.limits = "A1 20% 1G 2"},
	{"... by its name", .file = "[user root]\n" HALF, .script = "R1 S1+",
		.limits = "R1 50% 2G 1"},
	{"... with -M, too", .file = "[default]\n" LESS "[user 1000]\n" HALF,
		.script = "multi A1 B1 S1+", .limits = "A1 50% 2G 1"},
	{"... and for no other user of that server",
		.file = "[default]\n" LESS "[user 1000]\n" HALF, .script = "multi A1 B1 S1+",
		.limits = "B1 20% 1G 2"},

	/* ---- commands about the defaults */
	{"a command sets the default share",
		.script = "[set_default_active_thread_percentage 30] A1 S1+",
		.limits = "A1 30% - 0"},
	{"... the memory", .script = "[set_default_device_pinned_mem_limit 0 4G] S1:gpu A1 S2+",
		.limits = "A1 100% 4G 0"},
	{"... the priority", .script = "[set_default_client_priority 2] A1 S1+",
		.limits = "A1 100% - 2"},
	{"... before the file", .file = "[default]\n" HALF,
		.script = "[set_default_active_thread_percentage 90] A1 S1+",
		.limits = "A1 90% 2G 1"},
	{"... and the environment", {SHARE "=40"},
		.script = "[set_default_active_thread_percentage 90] A1 S1+",
		.limits = "A1 90% - 0"},
	{"... and not before [user]", .file = "[user 1000]\n" HALF,
		.script = "[set_default_active_thread_percentage 90] A1 S1+",
		.limits = "A1 50% 2G 1"},
	{"the share is for servers that start later",
		.script = "A1 S1+ [set_default_active_thread_percentage 30] A2",
		.limits = "A2 100% - 0"},
	{"... the memory, too",
		.script = "A1 S1+ [set_default_device_pinned_mem_limit 0 4G] S2:gpu A2",
		.limits = "A2 100% - 0"},
	{"... the priority is for all new clients",
		.script = "A1 S1+ [set_default_client_priority 2] A2", .limits = "A2 100% - 2"},
	{"an ordinary user sets no default", .script = "A[set_default_client_priority 2] A1 S1+",
		.limits = "A1 100% - 0", .says = "Operation not permitted"},

	/* ---- commands about a server */
	{"the operator sets a server's share",
		.script = "A1 S1+ [set_active_thread_percentage S1 30] A2", .limits = "A2 30% - 0"},
	{"... its memory", .script = "A1 S1+ [set_device_pinned_mem_limit S1 0 4G] S2:gpu A2",
		.limits = "A2 100% 4G 0"},
	{"... its priority", .script = "A1 S1+ [set_client_priority S1 2] A2",
		.limits = "A2 100% - 2"},
	{"... before [user]", .file = "[user 1000]\n" HALF,
		.script = "A1 S1+ [set_active_thread_percentage S1 90] A2",
		.limits = "A2 90% 2G 1"},
	{"... upwards, too", .file = "[default]\n" LESS,
		.script = "A1 S1+ [set_device_pinned_mem_limit S1 0 9G] S2:gpu A2",
		.limits = "A2 20% 9G 2"},
	{"... for no other server", .script = "A1 S1+ [set_active_thread_percentage S1 30] B1 S2+",
		.limits = "B1 100% - 0"},
	{"... and for no later one",
		.script = "A1 S1+ [set_active_thread_percentage S1 30] S1:exit A2 S2+",
		.limits = "A2 100% - 0"},
	{"... with -M for all users", .file = "[user 1000]\n" HALF,
		.script = "multi A1 S1+ [set_client_priority S1 2] A2", .limits = "A2 50% 2G 2"},

	/* ---- commands of a server's user */
	{"a user lowers its share", .file = "[default]\n" HALF,
		.script = "A1 S1+ A[set_active_thread_percentage S1 20] A2",
		.limits = "A2 20% 2G 1"},
	{"... its memory", .file = "[default]\n" HALF,
		.script = "A1 S1+ A[set_device_pinned_mem_limit S1 0 1G] S2:gpu A2",
		.limits = "A2 50% 1G 1"},
	{"... its priority", .file = "[default]\n" HALF,
		.script = "A1 S1+ A[set_client_priority S1 2] A2", .limits = "A2 50% 2G 2"},
	{"... and raises no share", .file = "[default]\n" HALF,
		.script = "A1 S1+ A[set_active_thread_percentage S1 90] A2",
		.limits = "A2 50% 2G 1"},
	{"... no memory", .file = "[default]\n" HALF,
		.script = "A1 S1+ A[set_device_pinned_mem_limit S1 0 9G] S2:gpu A2",
		.limits = "A2 50% 2G 1"},
	{"... no priority", .file = "[default]\n" HALF,
		.script = "A1 S1+ A[set_client_priority S1 0] A2", .limits = "A2 50% 2G 1"},
	{"... above what the operator has set",
		.script = "A1 S1+ [set_active_thread_percentage S1 30] "
			  "A[set_active_thread_percentage S1 90] A2",
		.limits = "A2 30% - 0"},
	{"... whichever comes first",
		.script = "A1 S1+ A[set_active_thread_percentage S1 20] "
			  "[set_active_thread_percentage S1 30] A2",
		.limits = "A2 20% - 0"},
	{"... nor of another user's server",
		.script = "A1 S1+ B[set_active_thread_percentage S1 20] A2",
		.limits = "A2 100% - 0", .says = "Operation not permitted"},
	{"the user of the server of all lowers nothing for others",
		.script = "multi A1 S1+ N[set_active_thread_percentage S1 20] A2 N1",
		.limits = "A2 100% - 0"},
	{"... only its own", .script = "multi A1 S1+ N[set_active_thread_percentage S1 20] A2 N1",
		.limits = "N1 20% - 0"},

	/* ---- groups */
	{"a group has what its section sets", .file = "[group team]\n" HALF,
		.script = "A1@team S1+", .limits = "@team 50% 2G 1",
		.says = "Configuration: group team: created"},
	{"... and a client of it what its user has", .file = "[group team]\n" HALF,
		.script = "A1@team S1+", .limits = "A1 100% - 0"},
	{"... or what a command sets", .file = "[group team]\n" HALF,
		.script = "[group set team -active_thread_percentage 30] A1@team S1+",
		.limits = "@team 30% 2G 1"},
	{"a group that does not exist is an error", .file = "[group team]\n" HALF,
		.script = "A1@other", .verdict = "refused 800 A1",
		.says = "Group \"other\" (MPS_GROUP) does not exist"},
	{"a group of a user is for that user", .file = "[group team]\nuid = 1000\n",
		.script = "A1@team", .verdict = "S1 of A starting; waiting A1"},
	{"... and for no other", .file = "[group team]\nuid = 1000\n", .script = "B1@team",
		.verdict = "refused 800 B1", .says = "is for UID 1000"},

	/* ---- a reload */
	{"a file that is as before changes nothing", .file = "[default]\n" HALF,
		.script = "[reload]", .reply = "Applied FILE\n"},
	{"a new value is for new clients", .file = "[default]\n" HALF, .script = "A1 S1+",
		.next_file = "[default]\n" LESS, .after = "[reload] A2", .limits = "A2 20% 1G 2"},
	{"... and is named", .file = "[default]\nactive_thread_percentage = 50\n", .script = "",
		.next_file = "[default]\nactive_thread_percentage = 20\n", .after = "[reload]",
		.reply = "default: active_thread_percentage: 20.0 (was 50.0)\nApplied FILE\n"},
	{"a line that goes leaves the default", .file = "[default]\n" HALF, .script = "A1 S1+",
		.next_file = "", .after = "[reload] A2", .limits = "A2 100% - 0"},
	{"... or what a command has set since", .file = "[default]\n" HALF,
		.script = "A1 S1+ [set_default_active_thread_percentage 30]", .next_file = "",
		.after = "[reload] B1 S2+", .limits = "B1 30% - 0"},
	{"... for a server that runs, too", .file = "[default]\n" HALF,
		.script = "A1 S1+ [set_default_active_thread_percentage 30]", .next_file = "",
		.after = "[reload] A2", .limits = "A2 30% - 0"},
	{"a line undoes a command", .file = "[default]\nactive_thread_percentage = 50\n",
		.script = "[set_default_active_thread_percentage 30] [reload]",
		.reply = "default: active_thread_percentage: 50.0 (was 30.0, which a command had "
			 "set)\n"
			 "Applied FILE\n"},
	{"... about the memory, too", .file = "",
		.script = "[set_default_device_pinned_mem_limit 0 4G] S1:gpu",
		.next_file = "[default]\ndevice_pinned_mem_limit = 0=3G\n",
		.after = "[reload] A1 S2+", .limits = "A1 100% 3G 0"},
	{"... about the defaults", .file = "[default]\n" HALF,
		.script = "[set_default_active_thread_percentage 30] [reload] A1 S1+",
		.limits = "A1 50% 2G 1"},
	{"... and not about what it does not mention",
		.file = "[default]\nactive_thread_percentage = 50\n",
		.script = "[set_default_client_priority 2] [reload] A1 S1+",
		.limits = "A1 50% - 2"},
	{"... nor about a server", .file = "[default]\n" HALF,
		.script = "A1 S1+ [set_active_thread_percentage S1 30] [reload] A2",
		.limits = "A2 30% 2G 1"},
	{"[user] comes", .file = "", .script = "A1 S1+", .next_file = "[user 1000]\n" HALF,
		.after = "[reload] A2", .limits = "A2 50% 2G 1"},
	{"... changes", .file = "[user 1000]\n" HALF, .script = "A1 S1+",
		.next_file = "[user 1000]\n" LESS, .after = "[reload] A2", .limits = "A2 20% 1G 2"},
	{"... and goes", .file = "[default]\n" LESS "[user 1000]\n" HALF, .script = "A1 S1+",
		.next_file = "[default]\n" LESS, .after = "[reload] A2", .limits = "A2 20% 1G 2"},
	{"... which is named", .file = "[user 1000]\nclient_priority = 2\n", .script = "",
		.next_file = "", .after = "[reload]",
		.reply = "user 1000: client_priority: none (was 2)\nApplied FILE\n"},
	{"a group comes and goes", .file = "[group a]\n", .script = "", .next_file = "[group b]\n",
		.after = "[reload]", .reply = "group a: deleted\ngroup b: created\nApplied FILE\n"},
	{"a group with clients stays", .file = "[group team]\n" HALF, .script = "A1@team S1+",
		.next_file = "", .after = "[reload]", .limits = "@team 100% - 0",
		.says = "stays without limits, as it has 1 clients: reload again"},
	{"... until they have left", .file = "[group team]\n" HALF, .script = "A1@team S1+ A1-",
		.next_file = "", .after = "[reload]",
		.reply = "group team: deleted\nApplied FILE\n"},
	{"a group stays with what a command has set", .file = "[group team]\nclient_priority = 1\n",
		.script = "[group set team -active_thread_percentage 25]", .next_file = "",
		.after = "[reload]",
		.reply = "group team: client_priority: none (was 1)\ngroup team: stays, as a "
			 "command has "
			 "set a limit of it: end it with group delete\nApplied FILE\n"},
	{"a section takes over a group of a command", .file = "",
		.script = "[group create team -priority 1]",
		.next_file = "[group team]\nclient_priority = 2\n", .after = "[reload]",
		.reply = "group team: client_priority: 2 (was 1, which a command had set)\nApplied "
			 "FILE\n"},
	{"a group whose section is still there comes back", .file = "[group team]\n",
		.script = "[group delete team] [reload]",
		.reply = "group team: created\nApplied FILE\n"},
	{"the user of a group cannot change while it has clients",
		.file = "[group team]\nuid = 1000\n", .script = "A1@team S1+",
		.next_file = "[group team]\nuid = 1001\n", .after = "[reload]",
		.reply = "line 2: the uid of group team cannot change while it has 1 clients: "
			 "reload again "
			 "when they have ended\nApplied FILE\n"},
	{"... and then it can", .file = "[group team]\nuid = 1000\n", .script = "",
		.next_file = "[group team]\n", .after = "[reload]",
		.reply = "group team: uid: any\nApplied FILE\n"},
	{"a group's limits reach its servers at once", .file = "[group team]\n" HALF,
		.script = "A1@team S1+", .next_file = "[group team]\n" LESS, .after = "[reload]",
		.limits = "@team 20% 1G 2"},
	{"a file with an error changes nothing", .file = "[default]\n" HALF, .script = "A1 S1+",
		.next_file = "[default]\nactive_thread_percentage = 20\nclient_priority = 9\n",
		.after = "[reload] A2", .limits = "A2 50% 2G 1"},
	{"... and says so", .file = "", .script = "",
		.next_file = "[default]\nclient_priority = 9\n", .after = "[reload]",
		.reply = "FILE:2: client_priority is \"9\": it must be 0 (normal), 1 (below "
			 "normal) or 2 "
			 "(background)\n"
			 "reload: nothing has changed, as FILE has an error: mend it and reload "
			 "again\n"
			 "nothing has changed, as FILE has an error: mend it and reload again\n"},
	{"an ordinary user cannot reload", .file = "", .script = "",
		.next_file = "[default]\n" HALF, .after = "A[reload] A1 S1+",
		.limits = "A1 100% - 0", .says = "Operation not permitted"},

	/* ---- keys of [daemon] */
	{"servers_max has effect", .file = "[daemon]\nservers_max = 1\n", .script = "A1 B1",
		.verdict = "S1 of A starting; waiting A1; refused 808 B1"},
	{"... and the environment's before it", {"MPS_SERVERS_MAX=2"},
		"[daemon]\nservers_max = 1\n", "A1 R1",
		.verdict = "S1 of A starting; S2 of R starting; waiting A1 R1",
		.says = "line 2: servers_max has no effect, as MPS_SERVERS_MAX is set"},
	{"... at once when it is reloaded", .file = "[daemon]\nservers_max = 1\n", .script = "A1",
		.next_file = "", .after = "[reload] B1",
		.verdict = "S1 of A starting; S2 of B starting; waiting A1 B1; [done]"},
	{"idle_s has effect", .file = "[daemon]\nidle_s = 1\n", .script = "A1 S1+ A1- 2s",
		.verdict = ""},
	{"... at once when it is reloaded", .file = "", .script = "A1 S1+ A1- 60s",
		.next_file = "[daemon]\nidle_s = 1\n", .after = "[reload] 1s", .verdict = "[done]"},
	{"grace_ms has effect", .file = "[daemon]\ngrace_ms = 1000\n",
		.script = "A1 S1+ S1:fault 7s", .verdict = "closed A1"},
	{"... on servers that start after it was reloaded", .file = "", .script = "A1 S1+",
		.next_file = "[daemon]\ngrace_ms = 1000\n", .after = "[reload] S1:fault 7s",
		.verdict = "S1 of A faulty: A1; [done]"},
	{"... as the reply says", .file = "[daemon]\ngrace_ms = 200\n", .script = "",
		.next_file = "[daemon]\ngrace_ms = 300\n", .after = "[reload]",
		.reply = "grace_ms: 300 (was 200), for servers that start from now on\nApplied "
			 "FILE\n"},
	{"log_level has effect at once", .file = "", .script = "",
		.next_file = "[daemon]\nlog_level = debug\n", .after = "[reload] [log_level]",
		.reply = "debug\n"},
	{"a level of a command stays without a line", .file = "",
		.script = "[log_level debug] [reload] [log_level]", .reply = "debug\n"},
	{"... and with one does not", .file = "[daemon]\nlog_level = info\n",
		.script = "[log_level debug] [reload]",
		.reply = "log_level: info (was debug, which a command had set)\nApplied FILE\n"},
	{"what needs a restart is named", .file = "[daemon]\nvisible_devices = 0\n", .script = "",
		.next_file = "[daemon]\nvisible_devices = 1\nmultiuser_server = yes\n",
		.after = "[reload]",
		.reply = "visible_devices: 1 (was 0): cannot change while the daemon runs: quit it "
			 "and start "
			 "it again\nmultiuser_server: yes (was no): cannot change while the daemon "
			 "runs: quit "
			 "it and start it again\nApplied FILE\n"},
	{"... each time", .file = "[daemon]\nvisible_devices = 0\n", .script = "",
		.next_file = "[daemon]\nvisible_devices = 1\n", .after = "[reload] [reload]",
		.reply = "visible_devices: 1 (was 0): cannot change while the daemon runs: quit it "
			 "and start "
			 "it again\nApplied FILE\n"},
	{"... and has no effect", .file = "", .script = "",
		.next_file = "[daemon]\nmultiuser_server = yes\n", .after = "[reload] A1 B1",
		.verdict = "S1 of A starting; S2 of B starting; waiting A1 B1; [done]"},
	{"what the environment sets is named at each reload", {"MPS_IDLE_S=55"},
		"[daemon]\nidle_s = 5\n", "[reload]",
		.reply = "line 2: idle_s has no effect, as MPS_IDLE_S is set in the daemon's "
			 "environment\n"
			 "Applied FILE\n"},

	/* ---- what commands reply */
	{"the default share is the file's", .file = "[default]\n" HALF,
		.script = "[get_default_active_thread_percentage]", .reply = "50.0\n"},
	{"... or the environment's", {SHARE "=40"}, "[default]\n" HALF,
		"[get_default_active_thread_percentage]", .reply = "40.0\n"},
	{"... or a command's", .file = "[default]\n" HALF,
		.script = "[set_default_active_thread_percentage 33.3] "
			  "[get_default_active_thread_percentage]",
		.reply = "33.3\n"},
	{"the default memory is the file's", .file = "[default]\n" HALF,
		.script = "[get_default_device_pinned_mem_limit 0] S1:gpu", .reply = "2G\n"},
	{"the default priority is the file's", .file = "[default]\n" HALF,
		.script = "[get_default_client_priority]", .reply = "1\n"},
	{"a server's share is its user's", .file = "[default]\n" LESS "[user 1000]\n" HALF,
		.script = "A1 S1+ [get_active_thread_percentage S1]", .reply = "50.0\n"},
	{"... its priority, too", .file = "[default]\n" LESS "[user 1000]\n" HALF,
		.script = "A1 S1+ [get_client_priority S1]", .reply = "1\n"},
	{"... its memory, too", .file = "[default]\n" LESS "[user 1000]\n" HALF,
		.script = "A1 S1+ [get_device_pinned_mem_limit S1 0] S2:gpu", .reply = "2G\n"},
};

static void set_environment(const struct row *row, bool is_set)
{
	for (size_t i = 0; i < ARRAY_SIZE(row->environment) && row->environment[i]; i++) {
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(row->environment[i], "="),
			row->environment[i]);
		scene_set_variable(name, is_set ? row->environment[i] + strlen(name) + 1 : NULL);
	}
}

/* "A1 50% 2G 1" */
static void check_limits(const char *wanted)
{
	const char *rest = wanted + strcspn(wanted, " ");
	char name[16], memory[16] = "-", text[64];
	const struct frame_limits *limits;

	snprintf(name, sizeof(name), "%.*s", (int)(rest - wanted), wanted);
	limits = scene_limits(name);
	if (limits->memory[0] != UINT64_MAX)
		snprintf(memory, sizeof(memory), "%uG", (unsigned)(limits->memory[0] >> 30));
	snprintf(text, sizeof(text), "%s %u%% %s %d", name, limits->active_threads / 1000, memory,
		limits->priority);
	assert_string_equal(text, wanted);
}

static void check_reply(const char *wanted)
{
	char text[4096];
	size_t n = 0;

	/* The path of the file, which is of this process, is FILE. */
	for (const char *reply = scene_reply(); *reply && n < sizeof(text) - 8;) {
		size_t length = scene_file_length(reply);

		if (length > 0)
			n += (size_t)sprintf(text + n, "FILE");
		else
			text[n++] = *reply;
		reply += MAX(length, 1);
	}
	text[n] = '\0';
	assert_string_equal(text, wanted);
}

static void test_row(void **state)
{
	const struct row *row = *state;

	set_environment(row, true);
	scene_set_file(row->file);
	scene_begin(row->script ? row->script : "A1 S1+");
	if (row->next_file)
		scene_set_file(row->next_file);
	if (row->after)
		scene_play(row->after);
	if (row->limits)
		check_limits(row->limits);
	if (row->reply)
		check_reply(row->reply);
	if (row->verdict)
		assert_string_equal(scene_verdict(), row->verdict);
	if (row->says && scene_count_said(row->says) == 0)
		fail_msg("does not say \"%s\"", row->says);
	scene_end();
	set_environment(row, false);
}

int main(void)
{
	return rows_run("settings", test_row, rows, sizeof(*rows), ARRAY_SIZE(rows));
}
