/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzzer: the daemon, with connections of several users that act as clients,
 * servers and operators. An input is a list of steps (enum step), each
 * followed by some bytes; the data that connections send is part of the input,
 * too.
 *
 * After each step the daemon's lists and counts agree, its output consists of whole
 * lines of text, and only a permitted user has ended it. At the end it is told to quit,
 * and does so within its time limits, with every handle closed.
 */

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "fake_system.h"
#include "spec_hash.h"
#include "daemon/watch/faults.h"
#include "../../daemon/config/settings.h"
#include "../../daemon/conn/conn.h"
#include "../../daemon/conn/listener.h"
#include "../../daemon/server/clients.h"
#include "../../daemon/server/server.h"
#include "../../daemon/state/daemon.h"
#include "../../daemon/state/partitions.h"
#include "../../daemon/state/tenant.h"
#include "../../daemon/text/group_name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CONNECTIONS 16
#define STEPS_MAX 400
#define GRACE_MS 1000

/* How long a quit may take: the time that a server has to end, and the time of the signals. */
#define QUIT_MS (GRACE_MS + 5000 + 3 * 2000 + 2000)

enum step {
	STEP_CONNECT, /* who; where */
	STEP_BE,      /* a server: which; where */
	STEP_SEND,    /* where, n, n bytes */
	STEP_FRAME,   /* where, type, n, n bytes after its head */
	STEP_STATE,   /* where, a server's state, the id of a client */
	STEP_CLIENT,  /* where, HERE or GONE, the id of a client */
	STEP_CONTEXT, /* where, the id of a client, a device */
	STEP_LINE,    /* where, n, n bytes and a newline */
	STEP_READ,    /* where */
	STEP_CLOSE,   /* where */
	STEP_SHUT,    /* where: shuts down its side */
	STEP_TIME,    /* tenths of a second */
	STEP_LONG,    /* seconds */
	STEP_EXIT,    /* which server, status */
	STEP_KERNEL,  /* n, n bytes of the kernel's log */
	STEP_GPU,     /* which server: as a probe it reports a GPU */
	STEP_OUTPUT,  /* which server, n, n bytes */
	STEP_PASS,    /* where: a byte with a descriptor */
	STEP_KIN,     /* who; where: a subordinate UID, or a process in a user namespace */
	STEP_RANGES,  /* n, n bytes: the file of subordinate UIDs is replaced */
	STEP_MEMBER,  /* where, which: a client of a group */
	STEP_COUNT,
};

static const uid_t uids[] = {0, 1000, 1001, 1002, 65534};

/* UIDs of processes in user namespaces, and subordinate UIDs. */
static const uid_t kin[] = {1000, 1001, 1002, 100000, 100003, 165535, 165536, 65534};

static const char ranges_at_first[] = "1001:100000:65536\n";

/* seeds.py and operator_lines.py have commands about them. */
static const char *const group_names[] = {"a", "b", "team/a", "", "none", "a/../b", "/a"};

/* ---- the input */

static struct input {
	const uint8_t *data;
	size_t size;
} input;

static uint8_t take_byte(void)
{
	if (input.size == 0)
		return 0;
	input.size--;
	return *input.data++;
}

static size_t take_bytes(void *bytes, size_t size)
{
	size = MIN(size, input.size);
	memcpy(bytes, input.data, size);
	input.data += size;
	input.size -= size;
	return size;
}

/* ---- what runs */

static struct daemon *daemon_; /* "daemon" is a function of libc's */

static struct connection {
	int fd; /* the peer's end; negative: closed */
	uid_t uid;
	bool has_sent_text;
} connections[CONNECTIONS];

static bool was_trusted; /* a peer was connected that may end the daemon */
static struct listener listener;
static int control_log, server_log, kernel_log, listening, ranges;
static unsigned n_ranges; /* how often the file of subordinate UIDs was written */

#define must(condition) must_(condition, #condition)

static void must_(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "fuzz_daemon: not so: %s\n", what);
	abort();
}

static void check_text(const char *text, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)text[i];

		must((c >= ' ' && c != 0x7f) || c == '\n');
	}
	must(size == 0 || text[size - 1] == '\n');
}

static void check_log(int fd)
{
	char text[65536];
	ssize_t n;

	lseek(fd, 0, SEEK_SET);
	/*
	 * Lines are shorter than the buffer; a buffer that ends within a line is checked up to
	 * that line.
	 */
	while ((n = read(fd, text, sizeof(text))) > 0)
		check_text(
			text, n == (ssize_t)sizeof(text)
				      ? (size_t)((char *)memrchr(text, '\n', (size_t)n) + 1 - text)
				      : (size_t)n);
	must(ftruncate(fd, 0) == 0);
	lseek(fd, 0, SEEK_SET);
}

static unsigned count_items(const struct list *list)
{
	unsigned n = 0;

	for (const struct list *item = list->next; item != list; item = item->next)
		n++;
	return n;
}

/* Whatever a server says, it has no clients of other users. */
static void check_clients(const struct server *server)
{
	uid_t uid = server->tenant->uid;

	list_each (struct client, client, &server->clients, link)
		must(client->uid == uid || daemon_trusts_server(daemon_, uid));
}

/* An account has what its tenants have, and no guest belongs to root's. */
static void check_accounts(void)
{
	unsigned n_tenants = 0, n_conns = 0;

	list_each (const struct account, account, &daemon_->accounts.all, link) {
		unsigned n_own_conns = 0;

		must(account->n_refs > 0 && account->n_tenants == count_items(&account->tenants));
		list_each (const struct tenant, tenant, &account->tenants, link_in_account) {
			must(tenant->account == account);
			must(account->uid != 0 || tenant->uid == 0);
			n_own_conns += tenant->n_conns;
		}
		must(account->n_conns == n_own_conns);
		n_tenants += account->n_tenants;
		n_conns += n_own_conns;
	}
	must(n_tenants == daemon_->n_tenants && n_conns >= daemon_->n_guest_conns);
}

static void check_groups(void)
{
	must(daemon_->groups.n == count_items(&daemon_->groups.list));
	must(daemon_->groups.n <= GROUPS_MAX);
	list_each (const struct group, group, &daemon_->groups.list, link) {
		must(group_name_ok(group->name));
		must(groups_find(&daemon_->groups, group->name) == group);
		must(groups_get(&daemon_->groups, group->id) == group);
	}
}

static void check_daemon(void)
{
	unsigned n_sessions = 0, n_guests = 0, n_tenants = 0;

	list_each (const struct server, server, &daemon_->servers, link_in_daemon) {
		must(server->slot && server->slot->server == server);
		must(server->n_clients == count_items(&server->clients));
		must(!server->conn || server->conn->server == server);
		must(!server->in_flight || server->in_flight->handed_to == server);
		must(server->devices.n <= DEVICES_MAX);
		check_clients(server);
		n_sessions += server->n_clients;
	}
	list_each (const struct tenant, tenant, &daemon_->tenants, link) {
		must(tenant->n_conns == count_items(&tenant->conns));
		n_guests += daemon_trusts(daemon_, tenant->uid) ? 0 : tenant->n_conns;
		n_tenants++;
	}
	must(daemon_->n_servers == count_items(&daemon_->servers));
	must(daemon_->n_sessions == n_sessions && daemon_->n_guest_conns == n_guests);
	must(daemon_->n_tenants == n_tenants);
	must(!daemon_->is_quitting || was_trusted);
	check_accounts();
	check_groups();
}

static void let_run(void)
{
	for (int i = 0; i < 3; i++)
		daemon_turn(daemon_, UV_RUN_NOWAIT);
}

static void let_pass(uint64_t ms)
{
	fake_system.now_ms += ms;
	let_run();
}

/* ---- connections */

static struct connection *take_connection(void)
{
	struct connection *connection = &connections[take_byte() % CONNECTIONS];

	return connection->fd >= 0 ? connection : NULL;
}

static struct fake_server *take_server(void)
{
	unsigned n = take_byte();

	return fake_system.n_servers ? &fake_system.servers[n % fake_system.n_servers] : NULL;
}

/* Replies to commands are lines, with the marks that command lines request. */
static void check_reply(const char *text, ssize_t n)
{
	for (ssize_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)text[i];

		must((c >= ' ' && c != 0x7f) || c == '\n' || c == 0x04 || c == 0x15 || c == 0x16);
	}
}

static void drain_replies(struct connection *connection)
{
	char text[4096];
	ssize_t n;

	while ((n = recv(connection->fd, text, sizeof(text), MSG_DONTWAIT)) > 0)
		if (connection->has_sent_text && text[0] != 0)
			check_reply(text, n);
}

static void hang_up(struct connection *connection)
{
	closep(&connection->fd);
	connection->fd = -EBADF;
}

static void open_connection(struct connection *connection, pid_t pid, uid_t uid)
{
	int ends[2];

	if (connection->fd >= 0)
		hang_up(connection);
	if (daemon_->is_over)
		return;
	must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	*connection = (struct connection){.fd = ends[0], .uid = uid};
	was_trusted |= daemon_trusts(daemon_, uid);
	fake_system_set_cred(ends[1], pid, uid);
	conn_accept(daemon_, ends[1], 0);
}

static void send_raw(const struct connection *connection, const void *bytes, size_t size)
{
	(void)send(connection->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void send_bytes(struct connection *connection, bool is_line)
{
	char bytes[256];
	size_t n = take_bytes(bytes, take_byte());

	if (is_line)
		bytes[MIN(n, sizeof(bytes) - 1)] = '\n';
	connection->has_sent_text |= n > 0 && bytes[0] != 0;
	send_raw(connection, bytes, MIN(n + is_line, sizeof(bytes)));
}

static void send_frame(struct connection *connection)
{
	union {
		struct frame_head head;
		struct frame_hello hello;
		struct frame_server server;
		uint8_t bytes[FRAME_MAX];
	} frame = {0};
	unsigned type = take_byte() % (FRAME_TYPE_MAX + 1);
	size_t size = frame_size(type), n = take_byte();

	if (size == 0)
		return;
	frame_init(&frame, type, 0);
	if (type == FRAME_HELLO) {
		frame.hello.version = FRAME_VERSION;
		frame.hello.spec_hash = SPEC_HASH;
	} else if (type == FRAME_SERVER) {
		frame.server.version = FRAME_VERSION;
		frame.server.spec_hash = SPEC_HASH;
		frame.server.uid = connection->uid;
	}
	/* Fills the rest of the frame after its valid fields, as far as the frame goes. */
	n = MIN(n, size - sizeof(struct frame_head));
	if (type == FRAME_HELLO)
		take_bytes(&frame.hello.program, MIN(n, sizeof(frame.hello.program)));
	else if (type != FRAME_SERVER)
		take_bytes(frame.bytes + sizeof(struct frame_head), n);
	send_raw(connection, &frame, size);
}

/* The id of a recent client, or an id that was never given. */
static uint64_t take_id(void)
{
	unsigned back = take_byte();

	return back == 255 ? 0 : daemon_->last_client_id - back % 8;
}

static void send_state(struct connection *connection)
{
	struct frame_server_state state = {0};

	frame_init(&state, FRAME_SERVER_STATE, 0);
	state.state = take_byte() % (SERVER_STATE_MAX + 2);
	state.client = take_id();
	send_raw(connection, &state, sizeof(state));
}

static void send_client(struct connection *connection)
{
	struct frame_client_note note = {0};
	unsigned which = take_byte();

	frame_init(&note, which % 2 ? FRAME_CLIENT_HERE : FRAME_CLIENT_GONE, 0);
	note.id = take_id();
	note.pid = which;
	note.uid = uids[which / 2 % ARRAY_SIZE(uids)];
	note.program = which / 16;
	send_raw(connection, &note, sizeof(note));
}

static void send_context(struct connection *connection)
{
	struct frame_context context = {0};

	frame_init(&context, FRAME_CONTEXT, 0);
	context.client = take_id();
	context.ordinal = take_byte();
	context.n_sms = 1;
	send_raw(connection, &context, sizeof(context));
}

/* A HELLO of a client with MPS_GROUP. */
static void send_member(struct connection *connection)
{
	struct frame_hello hello = {0};
	unsigned which = take_byte();

	frame_init(&hello, FRAME_HELLO, 0);
	hello.version = FRAME_VERSION;
	hello.spec_hash = SPEC_HASH;
	hello.program = which / 16;
	hello.group.is_set = 1;
	snprintf(hello.group.value, sizeof(hello.group.value), "%s",
		group_names[which % ARRAY_SIZE(group_names)]);
	send_raw(connection, &hello, sizeof(hello));
}

/* Sends a descriptor, which the daemon must not accept. */
static void pass_descriptor(const struct connection *connection)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec iov = {.iov_base = (char[]){0}, .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);

	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &listening, sizeof(int));
	(void)sendmsg(connection->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- steps */

static void step_connection(enum step step)
{
	struct connection *connection = take_connection();

	if (!connection)
		return;
	if (step == STEP_SEND || step == STEP_LINE)
		send_bytes(connection, step == STEP_LINE);
	else if (step == STEP_FRAME)
		send_frame(connection);
	else if (step == STEP_STATE)
		send_state(connection);
	else if (step == STEP_CLIENT)
		send_client(connection);
	else if (step == STEP_CONTEXT)
		send_context(connection);
	else if (step == STEP_MEMBER)
		send_member(connection);
	else if (step == STEP_READ)
		drain_replies(connection);
	else if (step == STEP_CLOSE)
		hang_up(connection);
	else if (step == STEP_SHUT)
		shutdown(connection->fd, SHUT_WR);
	else
		pass_descriptor(connection);
}

static void step_server(enum step step)
{
	struct fake_server *server = take_server();
	char bytes[256];
	size_t n;

	if (!server)
		return;
	if (step == STEP_BE) {
		struct connection *connection = &connections[take_byte() % CONNECTIONS];

		open_connection(connection, server->pid, server->uid);
		return;
	}
	n = take_byte();
	if (step == STEP_EXIT) {
		fake_server_end(server, n % 2 ? (int)n / 2 % 32 + 1 : (int)(n / 2) << 8);
		return;
	}
	n = take_bytes(bytes, n);
	if (server->output >= 0)
		(void)!write(server->output, bytes, n);
}

/* Writes a frame to the output of a process, as a probe does. */
static void send_gpu(void)
{
	const struct fake_server *server = take_server();
	struct frame_device device = {.n_devices = 1, .n_sms = 132, .total_memory = 1 << 30};

	frame_init(&device, FRAME_DEVICE, 0);
	snprintf(device.name, sizeof(device.name), "GPU");
	snprintf(device.pci_bus_id, sizeof(device.pci_bus_id), "0000:01:00.0");
	if (server && server->output >= 0)
		(void)!write(server->output, &device, sizeof(device));
}

static void write_kernel_log(void)
{
	char bytes[256];
	size_t n = take_bytes(bytes, take_byte());

	(void)!pwrite(kernel_log, bytes, n, lseek(kernel_log, 0, SEEK_END));
}

/* Replaces the file of subordinate UIDs. Its time changes each time, as the daemon looks at it. */
static void write_ranges(const void *bytes, size_t n)
{
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
		{.tv_sec = (time_t)(fake_system.now_ms / 1000), .tv_nsec = (long)++n_ranges}};

	must(ftruncate(ranges, 0) == 0 && pwrite(ranges, bytes, n, 0) == (ssize_t)n);
	must(futimens(ranges, times) == 0);
}

static void step_ranges(void)
{
	char bytes[256];
	size_t n = take_bytes(bytes, take_byte());

	write_ranges(bytes, n);
}

static void step_kin(void)
{
	unsigned who = take_byte();

	open_connection(&connections[take_byte() % CONNECTIONS],
		FAKE_PID_NESTED + (pid_t)(who / ARRAY_SIZE(kin)), kin[who % ARRAY_SIZE(kin)]);
}

static void take_step(void)
{
	enum step step = take_byte() % STEP_COUNT;
	unsigned who;

	switch (step) {
	case STEP_CONNECT:
		who = take_byte();
		open_connection(&connections[take_byte() % CONNECTIONS],
			FAKE_PID_FIRST + 1000 + (pid_t)who / 16, uids[who % ARRAY_SIZE(uids)]);
		break;
	case STEP_KIN:
		step_kin();
		break;
	case STEP_RANGES:
		step_ranges();
		break;
	case STEP_TIME:
		let_pass((uint64_t)take_byte() * 100);
		break;
	case STEP_LONG:
		let_pass((uint64_t)take_byte() * 1000);
		break;
	case STEP_GPU:
		send_gpu();
		break;
	case STEP_KERNEL:
		write_kernel_log();
		break;
	case STEP_BE:
	case STEP_EXIT:
	case STEP_OUTPUT:
		step_server(step);
		break;
	default:
		step_connection(step);
	}
}

/* ---- the whole */

static void open_files(void)
{
	const struct sockaddr any_name = {.sa_family = AF_UNIX};
	char path[64];

	if (control_log > 0)
		return;
	control_log = memfd_create("control.log", MFD_CLOEXEC);
	kernel_log = memfd_create("kmsg", MFD_CLOEXEC);
	server_log = memfd_create("server.log", MFD_CLOEXEC);
	ranges = memfd_create("subuid", MFD_CLOEXEC);
	must(ranges >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ranges);
	setenv("MPS_SUBUID_FILE", path, 1);
	listening = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	must(control_log >= 0 && server_log >= 0 && kernel_log >= 0 && listening >= 0);
	must(bind(listening, &any_name, sizeof(any_name.sa_family)) == 0);
	must(listen(listening, 1) == 0);
	signal(SIGPIPE, SIG_IGN);
}

/* Reads the first bytes of the input: the daemon's modes, and the behaviour of its system. */
static void open_daemon(void)
{
	uint8_t modes = take_byte();
	struct error_message error;

	open_files();
	fake_system_reset();
	take_bytes(&fake_system.spawn_failures, sizeof(uint32_t));
	take_bytes(&fake_system.deaf, sizeof(uint32_t));
	daemon_ = calloc(1, sizeof(*daemon_));
	must(daemon_);
	daemon_->config.grace_ms = GRACE_MS;
	daemon_->config.servers_max = modes & 1 ? 3 : 64;
	daemon_->config.idle_s = modes & 2 ? 1 : 0;
	daemon_->config.is_multiuser = modes & 4;
	daemon_->config.server_uid = 65534;
	daemon_->config.uid = modes & 8 ? 1000 : 0;
	snprintf(daemon_->config.kernel_log, sizeof(daemon_->config.kernel_log), "/proc/self/fd/%d",
		kernel_log);
	must(ftruncate(kernel_log, 0) == 0);
	must(settings_load(&daemon_->environment, &error) == 0);
	daemon_->is_exclusive = modes & 16;
	daemon_->config.is_partitioned = modes & 32;
	/* With partitions the number is odd: a byte has no more bits. */
	for (unsigned i = 0; i < (modes >> 5); i++)
		fake_system_record(uids[i % ARRAY_SIZE(uids)]);
	/* A reload cannot open the logs there. */
	daemon_->logs = (struct log_files){
		.options.directory = "/proc/none",
		.directory = -EBADF,
		.control.fd = control_log,
		.server.fd = server_log,
	};
	listener = (struct listener){.directory = -EBADF, .lock = -EBADF, .fd = listening};
	daemon_->listener = &listener;
	write_ranges(ranges_at_first, sizeof(ranges_at_first) - 1);
	must(daemon_start(daemon_, &error) == 0);
	was_trusted = false;
	for (unsigned i = 0; i < CONNECTIONS; i++)
		connections[i].fd = -EBADF;
}

static void close_daemon(void)
{
	for (unsigned i = 0; i < CONNECTIONS; i++)
		if (connections[i].fd >= 0)
			hang_up(&connections[i]);
	was_trusted = true;
	let_run();
	daemon_want_quit(daemon_, 0);
	for (unsigned ms = 0; ms < QUIT_MS && uv_loop_alive(&daemon_->loop); ms += 100)
		let_pass(100);
	check_log(control_log);
	must(uv_loop_close(&daemon_->loop) == 0);
	must(daemon_->n_servers == 0 && daemon_->n_sessions == 0 && daemon_->n_tenants == 0);
	faults_fini(&daemon_->faults);
	devices_fini(&daemon_->devices);
	groups_fini(&daemon_->groups);
	usages_fini(&daemon_->usages);
	accounts_fini(&daemon_->accounts);
	partitions_free(&daemon_->partitions);
	free(daemon_);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	input = (struct input){data, size};
	open_daemon();
	for (unsigned i = 0; i < STEPS_MAX && input.size > 0; i++) {
		take_step();
		let_run();
		check_daemon();
	}
	check_log(control_log);
	check_log(server_log);
	close_daemon();
	return 0;
}
