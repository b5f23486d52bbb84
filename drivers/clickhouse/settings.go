package clickhouse

import (
	"context"
	"errors"
	"maps"
	"strings"
)

// whole are the settings with which each statement returns all rows or fails. A profile of the account may have different settings.
var whole = map[string]string{
	"limit": "0", "offset": "0", "read_overflow_mode": "throw", "timeout_overflow_mode": "throw", "result_overflow_mode": "throw", "group_by_overflow_mode": "throw",
	"set_overflow_mode": "throw", "distinct_overflow_mode": "throw",
}

// current are the settings of a query that must return all current rows. The server may lack some of the settings.
var current = map[string]string{"use_query_cache": "0", "final": "0"}

// fixed are the settings of each INSERT. The server may lack some of them. A profile of the account may have set any of them.
var fixed = map[string]string{
	// The token is used, even for INSERT … SELECT and for views.
	"insert_deduplicate": "1", "deduplicate_insert": "enable", "deduplicate_insert_select": "force_enable", "insert_select_deduplicate": "1",
	"deduplicate_blocks_in_dependent_materialized_views": "1", "async_insert": "0",
	// The block is the same in every attempt, because one thread reads it, and only the number of its rows limits it.
	"max_threads": "1", "max_insert_threads": "1", "input_format_parallel_parsing": "0", "min_insert_block_size_rows": "0", "min_insert_block_size_bytes": "0",
	"max_insert_block_size_bytes": "0", "input_format_max_block_size_bytes": "0", "input_format_max_block_wait_ms": "0", "optimize_on_insert": "0",
	"max_partitions_per_insert_block": "0",
	// The rows are the CSV of staging. The format CSV would accept a comma at the end of a row. CustomSeparated with cells of CSV is strict.
	"format_custom_escaping_rule": "CSV", "format_custom_field_delimiter": ",", "format_custom_row_after_delimiter": "\n",
	"format_custom_row_before_delimiter": "", "format_custom_row_between_delimiter": "", "format_custom_result_before_delimiter": "",
	"format_custom_result_after_delimiter": "", "input_format_custom_detect_header": "0", "input_format_custom_allow_variable_number_of_columns": "0",
	"input_format_custom_skip_trailing_empty_lines": "0", "format_csv_delimiter": ",", "format_csv_allow_double_quotes": "1", "format_csv_allow_single_quotes": "0",
	"format_csv_null_representation": "", "input_format_csv_trim_whitespaces": "0", "input_format_csv_allow_whitespace_or_tab_as_delimiter": "0",
	"input_format_csv_deserialize_separate_columns_into_tuple": "0", "input_format_csv_use_default_on_bad_values": "0",
	"input_format_allow_errors_num": "0", "input_format_allow_errors_ratio": "0", "date_time_input_format": "best_effort",
	// NULL stays NULL, or is refused.
	"input_format_null_as_default": "0", "insert_null_as_default": "0", "input_format_defaults_for_omitted_fields": "1", "transform_null_in": "1",
}

func reservedSetting(name string) bool {
	for _, settings := range []map[string]string{whole, current, fixed} {
		if _, found := settings[name]; found {
			return true
		}
	}
	return name == "insert_deduplication_token" || name == "max_block_size" || name == "max_insert_block_size" || name == "wait_end_of_query" ||
		name == "database" || name == "default_format"
}

// insertSettings returns the settings of an INSERT.
func (t *Target) insertSettings(ctx context.Context) (map[string]string, error) {
	settings := maps.Clone(t.options.Settings)
	if settings == nil {
		settings = make(map[string]string)
	}
	return settings, errors.Join(t.addSettings(ctx, settings, current), t.addSettings(ctx, settings, fixed))
}

// addSettings adds the settings that the server knows. The server would refuse unknown settings.
func (t *Target) addSettings(ctx context.Context, to, settings map[string]string) error {
	t.mu.Lock()
	known := t.settings
	t.mu.Unlock()
	if known == nil {
		var names []string
		for _, settings := range []map[string]string{current, fixed} {
			for name := range settings {
				names = append(names, literal(name))
			}
		}
		rows, err := t.client.rows(ctx, "SELECT name FROM system.settings WHERE name IN ("+strings.Join(names, ", ")+")")
		if err != nil {
			return err
		}
		known = make(map[string]bool)
		for _, row := range rows {
			known[row[0]] = true
		}
		t.setSettings(known)
	}
	for name, value := range settings {
		if known[name] {
			to[name] = value
		}
	}
	return nil
}

func (t *Target) setSettings(known map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settings = known
}
