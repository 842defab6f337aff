/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The page of the metrics: its bounds, and what a server of an ordinary user can put there.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "daemon/state/daemon.h"
#include "daemon/state/slot.h"
#include "daemon/state/tenant.h"
#include "daemon/server/clients.h"
#include "daemon/server/server.h"
#include "daemon/server/viewer.h"
#include "daemon/watch/metrics.h"
#include "daemon/reply/command_scope.h"

#define SERVERS 3

static struct daemon mps;
static struct server servers[SERVERS];
static struct tenant tenants[SERVERS];
static struct usage usages[SERVERS];
static struct slot slots[SERVERS];
static struct frame_device gpus[SERVERS][DEVICES_MAX];

/* ---- the rest of the daemon */

uint64_t uv_now(_unused_ const uv_loop_t *loop)
{
	return 5000;
}

struct group *groups_get(_unused_ const struct groups *groups, _unused_ uint32_t id)
{
	return NULL;
}

void slot_name(const struct slot *slot, char name[SERVER_NAME_MAX])
{
	snprintf(name, SERVER_NAME_MAX, "%s", slot->name);
}

bool viewer_sees_server(_unused_ const struct conn *conn, _unused_ const struct server *server)
{
	return true;
}

bool viewer_sees_client(_unused_ const struct conn *conn, _unused_ const struct server *server,
	_unused_ const struct client *client)
{
	return true;
}

bool viewer_sees_user(_unused_ const struct conn *conn, _unused_ uid_t uid)
{
	return true;
}

bool viewer_sees_all(_unused_ const struct conn *conn)
{
	return true;
}

/* ---- a daemon with servers and clients */

static int set_up(_unused_ void **state)
{
	mps = (struct daemon){.n_servers = SERVERS};
	list_init(&mps.servers);
	list_init(&mps.tenants);
	list_init(&mps.groups.list);
	for (unsigned i = 0; i < SERVERS; i++) {
		tenants[i] = (struct tenant){.uid = 1000 + i};
		slots[i] = (struct slot){.name = "pool"};
		servers[i] = (struct server){.pid = 100 + (pid_t)i,
			.slot = &slots[i],
			.tenant = &tenants[i],
			.daemon = &mps,
			.state = SERVER_ACTIVE,
			.devices = {.items = gpus[i], .n = 2}};
		list_init(&servers[i].clients);
		list_add_tail(&mps.servers, &servers[i].link_in_daemon);
		usages[i] = (struct usage){.uid = tenants[i].uid};
		mps.usages.items[mps.usages.n++] = &usages[i];
		memset(gpus[i], 0, sizeof(gpus[i]));
		for (unsigned k = 0; k < DEVICES_MAX; k++) {
			gpus[i][k].uuid[0] = (uint8_t)k;
			gpus[i][k].total_memory = 1 << 20;
		}
	}
	return 0;
}

static void add_clients(struct server *server, unsigned n, unsigned n_contexts)
{
	static uint64_t last_id;

	for (unsigned i = 0; i < n; i++) {
		struct client *client = calloc(1, sizeof(*client));

		assert_non_null(client);
		client->id = ++last_id;
		client->uid = server->tenant->uid;
		client->counts.counters[COUNTER_LAUNCHES] = 1;
		client->n_contexts = n_contexts;
		for (unsigned k = 0; k < n_contexts; k++) {
			client->contexts[k].ordinal = k;
			client->contexts[k].memory = UINT64_MAX;
			client->counts.memory[k] = 100;
		}
		list_add_tail(&server->clients, &client->link);
		server->n_clients++;
	}
}

static int tear_down(_unused_ void **state)
{
	for (unsigned i = 0; i < SERVERS; i++)
		list_each_safe (struct client, client, &servers[i].clients, link)
			free(client);
	return 0;
}

static unsigned count_rows_of(const struct metrics *metrics, const struct server *server)
{
	unsigned n = 0;

	for (unsigned i = 0; i < metrics->n_clients; i++)
		n += metrics->clients[i].server == server;
	return n;
}

/* How often the page has the text. */
static unsigned count_text(const char *page, const char *text)
{
	unsigned n = 0;

	for (const char *at = strstr(page, text); at; at = strstr(at + 1, text))
		n++;
	return n;
}

/* ---- tests */

/* Clients without series are counted, and are in the sums. */
static void test_client_bound(_unused_ void **state)
{
	_cleanup_free_ struct metrics *metrics = NULL;
	_cleanup_free_ char *page = NULL;
	size_t size;

	add_clients(&servers[0], METRICS_CLIENTS_MAX + 50, 1);
	metrics = metrics_collect(&mps, NULL);
	page = metrics_page(&mps, NULL, &size);
	assert_int_equal(metrics->n_clients, METRICS_CLIENTS_MAX);
	assert_int_equal(metrics->n_left_out, 50);
	assert_int_equal(metrics->users[0].counters[COUNTER_LAUNCHES], METRICS_CLIENTS_MAX + 50);
	assert_int_equal(metrics->gpus[0].memory, 100 * (METRICS_CLIENTS_MAX + 50));
	assert_non_null(strstr(page, "\nmps_clients 306\n"));
	assert_non_null(strstr(page, "\nmps_clients_without_series 50\n"));
	assert_int_equal(count_text(page, "\nmps_client_launches_total{"), METRICS_CLIENTS_MAX);
	assert_int_not_equal(count_text(page, ",server=\"100\",server_name=\"pool\"}"), 0);
	assert_int_equal(size, strlen(page));
}

/* A server with many clients leaves the others their series. */
static void test_shares(_unused_ void **state)
{
	_cleanup_free_ struct metrics *metrics = NULL;

	add_clients(&servers[0], 1000, 1);
	add_clients(&servers[1], 40, 1);
	add_clients(&servers[2], 90, 1);
	metrics = metrics_collect(&mps, NULL);
	assert_int_equal(metrics->n_clients, METRICS_CLIENTS_MAX);
	assert_int_equal(count_rows_of(metrics, &servers[1]), 40);
	assert_in_range(count_rows_of(metrics, &servers[2]), 85, 90);
	assert_int_equal(metrics->n_present, 1130);
	assert_int_equal(metrics->n_left_out, 1130 - METRICS_CLIENTS_MAX);
}

static void test_context_bound(_unused_ void **state)
{
	_cleanup_free_ struct metrics *metrics = NULL;

	servers[0].devices.n = DEVICES_MAX;
	add_clients(&servers[0], 40, DEVICES_MAX);
	metrics = metrics_collect(&mps, NULL);
	assert_int_equal(metrics->n_contexts, METRICS_CONTEXTS_MAX);
	assert_int_equal(metrics->n_left_out, 40 - METRICS_CONTEXTS_MAX / DEVICES_MAX);
}

/* Two GPUs of one server with the same UUID would be two samples of one series. */
static void test_repeated_gpu(_unused_ void **state)
{
	_cleanup_free_ char *page = NULL;
	size_t size;

	memset(gpus[0][1].uuid, 0, sizeof(gpus[0][1].uuid));
	add_clients(&servers[0], 1, 2);
	page = metrics_page(&mps, NULL, &size);
	assert_int_equal(count_text(page, "\nmps_client_sms{"), 1);
	assert_int_equal(count_text(page, "\nmps_client_memory_limit_bytes{"), 0);
	assert_int_equal(count_text(page, "\nmps_client_share_sms{"), 0);
	assert_int_equal(count_text(page, "\nmps_gpu_background_sms{"), 0);
	assert_int_equal(count_text(page, "\nmps_gpu_foreground_slowdown_ratio{"), 0);
}

/* A server claims more memory for its client than the GPU has; a name is any bytes. */
static void test_claims(_unused_ void **state)
{
	_cleanup_free_ char *page = NULL;
	struct client *client;
	size_t size;

	add_clients(&servers[0], 1, 1);
	client = container_of(servers[0].clients.next, struct client, link);
	client->counts.memory[0] = UINT64_MAX - 1;
	client->counts.counters[COUNTER_LAUNCHES] = UINT64_MAX;
	memcpy(gpus[0][0].name, "a \"GPU\"\n\xff", sizeof("a \"GPU\"\n\xff"));
	page = metrics_page(&mps, NULL, &size);
	assert_int_equal(count_text(page, "name=\"a \\\"GPU\\\"\\n\xef\xbf\xbd\""), 1);
	assert_non_null(
		strstr(page, "\nmps_gpu_clients_memory_bytes{gpu=\"GPU-00000000-0000-0000-0000-"
			     "000000000000\"} 1048576\n"));
	assert_non_null(strstr(page, "\"} 18446744073709551615\n"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_client_bound),
		TEST(test_shares),
		TEST(test_context_bound),
		TEST(test_repeated_gpu),
		TEST(test_claims),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
