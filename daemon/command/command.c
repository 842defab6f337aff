/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The table of commands, of protocol 2 and of protocol 3. A command of protocol 3 is a module and a
 * verb. Loop thread.
 *
 * Invariant: each command is executed, refused, or answered by its usage; only
 * quit ends the daemon.
 */

#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "reload.h"
#include "daemon/text/line_buffer.h"
#include "daemon/text/nearest.h"
#include "daemon/state/daemon.h"
#include "daemon/state/slot.h"
#include "daemon/conn/conn.h"
#include "daemon/conn/pending.h"
#include "daemon/server/probe.h"
#include "daemon/reply/command_reply.h"
#include "daemon/module/modules.h"

/* How long a command waits for the file of -a: servers start meanwhile. */
#define APPLY_MS 60000

/* The command is about GPUs: it waits until the machine's GPUs are known. */
#define NEEDS_GPUS ""

struct command {
	const char *name;
	const char *usage;   /* what follows the name */
	size_t n_min, n_max; /* tokens, the name included, without the options of protocol 3 */
	void (*run)(struct conn *conn, const struct tokens *tokens);
	const char *help;
	const char *needs_gpus; /* NULL: no; "": always; else if this token is given */
};

static void command_help(struct conn *conn, const struct tokens *tokens);

static const struct command commands[] = {
	{"get_server_list", " [--json]", 1, 2, command_get_server_list,
		"list the PIDs of all servers, one per line", NULL},
	{"get_server_status", " PID", 2, 2, command_get_server_status,
		"print its state: INITIALIZING, ACTIVE, FAULT or STOPPING", NULL},
	{"start_server", " -uid UID", 1, 3, command_start_server, "start the server of a user now",
		NULL},
	{"shutdown_server", " PID [-f]", 2, 3, command_shutdown_server,
		"stop a server when its clients have exited; -f: stop it now", NULL},
	{"restart_server", " PID [-t SECONDS] [-f]", 2, 5, command_restart_server,
		"move its clients to a new process; -t: wait for their work; -f: end those that "
		"cannot move",
		NULL},
	{"get_client_list", " PID", 2, 2, command_get_client_list,
		"list the PIDs of the clients of a server", NULL},
	{"get_device_client_list", " [PID]", 1, 2, command_get_device_client_list,
		"list the clients of each GPU, as PID.CONTEXT", NULL},
	{"terminate_client", " SERVER_PID CLIENT_PID", 3, 3, command_terminate_client,
		"end the work of a client; its later calls fail", NULL},
	{"suspend_client", " CLIENT_PID|-group NAME|-uid UID [-t SECONDS]", 2, 5,
		command_suspend_client,
		"hold the calls of clients; -t: wait for their work at most SECONDS", NULL},
	{"resume_client", " CLIENT_PID|-group NAME|-uid UID", 2, 3, command_resume_client,
		"let suspended clients go on", NULL},
	{"get_last_fault", " [N] [--json]", 1, 3, command_get_last_fault,
		"show which client caused a GPU fault, and how that is known", NULL},
	{"ps", " [-p PID] [-l] [--json]", 1, TOKENS_MAX, command_ps,
		"list clients and their GPUs; -p: of one server; -l: with their limits", NULL},
	{"stats", " [--json]", 1, 2, command_stats,
		"list what clients have done: launches, copies, time at work, memory", NULL},
	{"metrics", "", 1, 1, command_metrics,
		"print all counters in the format of Prometheus: see mps-control(1)", NULL},
	{"trace", " start|stop [-server PID] FILE", 2, 5, command_trace,
		"record what the streams of clients do; stop writes FILE for Perfetto", NULL},
	{"device_query", " [PID] [--csv | --json]", 1, TOKENS_MAX, command_device_query,
		"list the GPUs of all servers, or of one server", NEEDS_GPUS},
	{"set_default_active_thread_percentage", " PERCENTAGE", 1, 2, command_set_percentage,
		"set the share of SMs for servers that start later", NULL},
	{"get_default_active_thread_percentage", "", 1, 1, command_get_percentage,
		"print that share", NULL},
	{"set_active_thread_percentage", " PID|-group NAME PERCENTAGE", 2, 4,
		command_set_percentage, "set it for new clients of a server or a group", NULL},
	{"get_active_thread_percentage", " PID|-group NAME", 2, 3, command_get_percentage,
		"print that share", NULL},
	{"set_default_device_pinned_mem_limit", " DEVICE SIZE|none", 1, 3, command_set_memory,
		"limit the memory of each client on a GPU, for servers that start later",
		NEEDS_GPUS},
	{"get_default_device_pinned_mem_limit", " DEVICE", 1, 2, command_get_memory,
		"print that limit, or none", NEEDS_GPUS},
	{"set_device_pinned_mem_limit", " PID|-group NAME DEVICE SIZE|none", 2, 5,
		command_set_memory,
		"set that limit for new clients of a server, or for a whole group", NEEDS_GPUS},
	{"get_device_pinned_mem_limit", " PID|-group NAME DEVICE", 2, 4, command_get_memory,
		"print that limit, or none", NEEDS_GPUS},
	{"set_default_client_priority", " PRIORITY", 1, 2, command_set_priority,
		"set the priority of new clients: 0 normal, 1 below normal, 2 background", NULL},
	{"get_default_client_priority", "", 1, 1, command_get_priority, "print that priority",
		NULL},
	{"set_client_priority", " PID|-group NAME PRIORITY", 2, 4, command_set_priority,
		"set it for new clients of a server or a group", NULL},
	{"get_client_priority", " PID|-group NAME", 2, 3, command_get_priority,
		"print that priority", NULL},
	{"group", " create|set NAME [OPTION]..., get|delete NAME, list [--json]", 2, TOKENS_MAX,
		command_group,
		"set the limits that clients with MPS_GROUP=NAME share; for its options see "
		"mps-control(1)",
		"-device_pinned_mem_limit"},
	{"lspart", "", 1, 1, command_lspart, "with -S: list the partitions of SMs", NEEDS_GPUS},
	{"sm_partition", " add DEVICE CHUNKS|rm DEVICE ID", 4, 4, command_sm_partition,
		"with -S: create or remove a partition", NEEDS_GPUS},
	{"reload", "", 1, 1, command_reload,
		"apply the configuration file again, and reopen the logs", NULL},
	{"log_level", " [info|debug]", 1, 2, command_log_level,
		"print or set the level of control.log; debug adds limits, devices and contexts",
		NULL},
	{"quit", " [-t SECONDS]", 1, 3, command_quit,
		"stop all servers and the daemon; -t: wait for clients at most SECONDS", NULL},
	{"help", "", 1, 1, command_help, "print this list", NULL},
	{"server create", " [NAME] [--uid=UID] [--allowed-devices=LIST] [--locality-domains=false]",
		1, 2, module_server_create, "start a server that clients choose by its directory",
		NEEDS_GPUS},
	{"server delete", " NAME [--force]", 2, 2, module_server_delete,
		"end a server without clients; --force: and the work of its clients", NULL},
	{"server list", " [NAME] [--format=FORMAT]", 1, 2, module_server_list,
		"list the servers; FORMAT: " TABLE_FORMATS, NULL},
	{"server get", " NAME FIELD", 3, 3, module_server_get, "print one column of that list",
		NULL},
	{"server set", " NAME" MODULE_LIMITS " [--uid=UID] [--locality-domains=false]", 2, 2,
		module_server_set, "set limits of the server's namespace default", NEEDS_GPUS},
	{"namespace create", " NAME --server=SERVER" MODULE_ROUTE, 2, 2, module_namespace_create,
		"add a namespace, in whose directory clients share limits", NULL},
	{"namespace delete", " NAME --server=SERVER [--force]", 2, 2, module_namespace_delete,
		"remove it if it has no clients; --force: end their work first", NULL},
	{"namespace list", " [NAME] [--server=SERVER] [--format=FORMAT]", 1, 2,
		module_namespace_list, "list the namespaces and their limits", NULL},
	{"namespace set", " NAME --server=SERVER" MODULE_LIMITS MODULE_ROUTE, 2, 2,
		module_namespace_set, "set limits of a namespace", NEEDS_GPUS},
	{"namespace get", " NAME SERVER FIELD", 4, 4, module_namespace_get,
		"print one column of that list", NULL},
	{"client list", " [--server=SERVER] [--all] [--format=FORMAT]", 1, 1, module_client_list,
		"list the clients, a line for each GPU", NULL},
	{"client get", " PID FIELD", 3, 3, module_client_get,
		"print pid, server, device, pci-id, linux-ns, maws-ns or cmd of a client", NULL},
	{"client terminate", " PID", 2, 2, module_client_terminate,
		"end the work of a client; its later calls fail", NULL},
	{"sm-partition create",
		" NAME --server=SERVER --device=DEVICE --chunks=N [--include-remainder=true|false]"
		" [--shareable=true|false] [--max-chunks=N]",
		2, 2, module_sm_partition_create,
		"reserve SMs of a GPU for clients that name them, or whose namespace is bound",
		NEEDS_GPUS},
	{"sm-partition delete", " NAME --server=SERVER --device=DEVICE", 2, 2,
		module_sm_partition_delete, "remove a partition without clients", NEEDS_GPUS},
	{"sm-partition list",
		" [--server=SERVER] [--device=DEVICE] [--all] [--long] [--format=FORMAT]", 1, 1,
		module_sm_partition_list,
		"list the partitions; --all: and GPUs without, --long: and who has them",
		NEEDS_GPUS},
	{"sm-partition bind", " NAME --server=SERVER --device=DEVICE --namespace=NAMESPACE", 2, 2,
		module_sm_partition_bind,
		"give a partition to all later clients of a namespace, and to no others",
		NEEDS_GPUS},
	{"sm-partition unbind", " NAME --server=SERVER --device=DEVICE --namespace=NAMESPACE", 2, 2,
		module_sm_partition_unbind, "undo that", NEEDS_GPUS},
	{"memacct describe", " [--server=SERVER] [--format=FORMAT]", 1, 1, module_memacct_describe,
		"list the memory of namespaces and clients, and their limits", NULL},
	{"memacct set", " --audit-log=true|false", 1, 1, module_memacct_set,
		"write into control.log what memory clients had", NULL},
	{"feature enable", " memacct|context-share", 2, 2, module_feature_enable,
		"enable a feature; both are enabled at first", NULL},
	{"feature disable", " memacct", 2, 2, module_feature_disable,
		"let soft limits of memory not count", NULL},
	{"feature describe", " [FEATURE] [--format=FORMAT]", 1, 2, module_feature_describe,
		"list the features and their states", NULL},
	{"context-share set", " --default-socket=on|off", 1, 1, module_context_share_set,
		"off: programs in the daemon's own directory get servers of their own", NULL},
	{"context-share describe", " [--format=FORMAT]", 1, 1, module_context_share_describe,
		"list what that has set", NULL},
	{"device list", " [--server=SERVER] [--format=FORMAT]", 1, 1, module_device_list,
		"list the GPUs of the servers", NEEDS_GPUS},
};

static void describe_command(const struct command *command, char line[LINE_MAX_SIZE])
{
	char text[256];

	snprintf(text, sizeof(text), "%s%s", command->name, command->usage);
	snprintf(line, LINE_MAX_SIZE, "%-59s  %s", text, command->help);
}

static void reply_help(struct conn *conn, const struct command *command)
{
	char line[LINE_MAX_SIZE];

	describe_command(command, line);
	command_reply(conn, "%s", line);
}

static void command_help(struct conn *conn, _unused_ const struct tokens *tokens)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		reply_help(conn, &commands[i]);
}

void commands_print(void)
{
	char line[LINE_MAX_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		describe_command(&commands[i], line);
		printf("  %s\n", line);
	}
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (strcmp(name, commands[i].name) == 0)
			return &commands[i];
	return NULL;
}

/* ---- protocol 3 */

static bool is_of_module(const struct command *command, const char *module)
{
	size_t length = strlen(module);

	return strncmp(command->name, module, length) == 0 && command->name[length] == ' ';
}

bool commands_have_module(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (is_of_module(&commands[i], word))
			return true;
	return false;
}

bool commands_end_well(const char *word, unsigned protocol)
{
	return !commands_have_module(word) && (protocol == 2 || find_command(word));
}

static bool is_help(const char *word)
{
	return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static void help_with_module(struct conn *conn, const char *module)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (is_of_module(&commands[i], module))
			reply_help(conn, &commands[i]);
}

/* The row of the module and its verb; NULL: the connection is answered. */
static const struct command *find_verb(struct conn *conn, const char *module, const char *verb)
{
	char name[sizeof(conn->command)], verbs[256] = "";
	const struct command *command;
	size_t used = 0;

	snprintf(name, sizeof(name), "%s %s", module, verb);
	command = find_command(name);
	for (size_t i = 0; i < ARRAY_SIZE(commands) && !command; i++)
		if (is_of_module(&commands[i], module))
			used += (size_t)snprintf(verbs + used, sizeof(verbs) - used, "%s%s",
				used > 0 ? ", " : "", commands[i].name + strlen(module) + 1);
	if (!command)
		command_fail(conn, "Unknown verb \"%s\" of %s, which has: %s", verb, module, verbs);
	else
		snprintf(conn->command, sizeof(conn->command), "%s", name);
	return command;
}

/* Reads the words after the verb; false: the connection is answered. */
static bool read_arguments(struct conn *conn, const struct command *command, struct tokens *tokens)
{
	struct error_message error;

	/* The module and the verb become one word, the name. */
	memmove(tokens->item, tokens->item + 1, --tokens->n * sizeof(tokens->item[0]));
	tokens->item[0] = conn->command;
	if (arguments_read(tokens, command->usage, &error) == 0)
		return true;
	return command_fail(conn, "%s: %s%s", error.text, command->name, command->usage);
}

/* Words of other programs, and what they mean here. */
static const struct {
	const char *word, *advice;
} habits[] = {
	{.word = "start",
		.advice = "mps-control -d starts the daemon, start_server -uid UID a server"},
	{.word = "stop", .advice = "quit ends the daemon and its servers"},
	{.word = "exit", .advice = "quit ends the daemon and its servers"},
	{.word = "restart", .advice = "quit ends the daemon, mps-control -d starts it"},
	{.word = "status", .advice = "get_server_list lists the servers, ps the clients"},
	{.word = "list", .advice = "get_server_list lists the servers, ps the clients"},
	{.word = "kill", .advice = "terminate_client ends a client, shutdown_server a server"},
	{.word = "compute-policy",
		.advice = "the GPU's driver sets time slices: see nvidia-smi compute-policy"},
	{.word = "version", .advice = "mps-control -v prints the version"},
};

static void refuse_unknown(struct conn *conn, const char *name)
{
	const char *names[ARRAY_SIZE(commands)], *nearest;
	char advice[128] = "help lists the commands";

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		names[i] = commands[i].name;
	nearest = nearest_word(name, names, ARRAY_SIZE(commands));
	if (nearest)
		snprintf(advice, sizeof(advice), "did you mean %s?", nearest);
	for (size_t i = 0; i < ARRAY_SIZE(habits); i++)
		if (strcasecmp(name, habits[i].word) == 0)
			snprintf(advice, sizeof(advice), "%s", habits[i].advice);
	/* The reply is that of NVIDIA's daemon. */
	command_fail(conn, "Unknown command \"%s\"", name);
	command_note(conn, "%s", advice);
}

static bool needs_gpus(const struct command *command, const struct tokens *tokens)
{
	if (!command->needs_gpus)
		return false;
	for (size_t i = 1; i < tokens->n; i++)
		if (strcmp(tokens->item[i], command->needs_gpus) == 0)
			return true;
	return !*command->needs_gpus;
}

static void refuse_count(
	struct conn *conn, const struct command *command, const struct tokens *tokens)
{
	/* Verbs of modules have two words as their name, of which the tokens have one. */
	if (!strchr(command->name, ' '))
		command_fail(conn, "Usage: %s%s", command->name, command->usage);
	else if (tokens->n < command->n_min)
		command_fail(conn, "Too few words. Usage: %s%s", command->name, command->usage);
	else
		command_fail(conn, "\"%s\" is not expected. Usage: %s%s",
			tokens->item[command->n_max], command->name, command->usage);
}

/* `line' is the whole command, which runs again if it has to wait for the GPUs. */
static void run(struct conn *conn, const struct command *command, const struct tokens *tokens,
	const char *line)
{
	if (tokens->n < command->n_min || tokens->n > command->n_max)
		refuse_count(conn, command, tokens);
	else if (!needs_gpus(command, tokens) || probe_is_done(conn->daemon, conn, line))
		command->run(conn, tokens);
}

static void run_module(struct conn *conn, struct tokens *tokens, const char *line)
{
	const char *module = tokens->item[0], *verb = tokens->n > 1 ? tokens->item[1] : "help";
	const struct command *command = is_help(verb) ? NULL : find_verb(conn, module, verb);

	if (is_help(verb))
		help_with_module(conn, module);
	else if (command && tokens->n == 3 && is_help(tokens->item[2]))
		reply_help(conn, command);
	else if (command && read_arguments(conn, command, tokens))
		run(conn, command, tokens, line);
}

static void on_apply_deadline(struct conn *conn)
{
	list_remove(&conn->wait);
	pending_fail(conn, "The daemon still applies the file of -a: see control.log");
	pending_end(conn);
}

static const struct pending pending_apply = {.on_deadline = on_apply_deadline};

/* Whether the command has to wait for the end of the file of -a, as it may need what that makes. */
static bool waits_for_file(struct conn *conn, const char *line)
{
	struct daemon *daemon = conn->daemon;

	if (!daemon->is_applying || conn->is_for_file ||
		!pending_begin_rerun(conn, &pending_apply, line, APPLY_MS))
		return false;
	list_add_tail(&daemon->applying, &conn->wait);
	return true;
}

void command_run(struct conn *conn, char *line)
{
	const struct command *command;
	char copy[COMMAND_MAX];
	struct tokens tokens;

	snprintf(copy, sizeof(copy), "%s", line);
	if (waits_for_file(conn, copy))
		return;
	tokenize_line(&tokens, line);
	if (commands_have_module(tokens.item[0]) && tokens.n <= TOKENS_MAX) {
		run_module(conn, &tokens, copy);
		return;
	}
	command = find_command(tokens.item[0]);
	if (command)
		run(conn, command, &tokens, copy);
	else
		refuse_unknown(conn, tokens.item[0]);
}
