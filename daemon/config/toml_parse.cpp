/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads TOML by the library tomlplusplus (toml.h). Built where that library is installed.
 */

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ENABLE_UNRELEASED_FEATURES 0

#include <cstdio>
#include <jansson.h>
#include <toml++/toml.h>

extern "C" json_t *toml_parse(const char *path, char *error, size_t size);

static json_t *of_node(const toml::node &node);

static json_t *of_table(const toml::table &table)
{
	json_t *object = json_object();

	for (auto &&[key, value] : table)
		json_object_set_new(object, std::string(key.str()).c_str(), of_node(value));
	return object;
}

static json_t *of_array(const toml::array &array)
{
	json_t *list = json_array();

	for (const toml::node &item : array)
		json_array_append_new(list, of_node(item));
	return list;
}

/* Dates and numbers with a fraction are no value of any key. */
static json_t *of_value(const toml::node &node)
{
	if (auto text = node.as_string())
		return json_stringn(text->get().c_str(), text->get().size());
	if (auto number = node.as_integer())
		return json_integer(number->get());
	if (auto truth = node.as_boolean())
		return json_boolean(truth->get());
	return json_null();
}

static json_t *of_node(const toml::node &node)
{
	json_t *object = json_object();

	json_object_set_new(object, "line", json_integer(node.source().begin.line));
	if (auto table = node.as_table())
		json_object_set_new(object, "table", of_table(*table));
	else if (auto array = node.as_array())
		json_object_set_new(object, "array", of_array(*array));
	else
		json_object_set_new(object, "value", of_value(node));
	return object;
}

extern "C" json_t *toml_parse(const char *path, char *error, size_t size)
{
	toml::parse_result result = toml::parse_file(path);

	if (result)
		return of_node(result.table());
	std::snprintf(error, size, "line %u: %.*s", result.error().source().begin.line,
		static_cast<int>(result.error().description().size()),
		result.error().description().data());
	return nullptr;
}
