package lint

import (
	"cmp"
	"slices"
	"strings"
)

// rooms says which packages of this module the packages of a room may import in non-test files, as folders. A folder
// that ends with "/..." stands for all below it too. It is the table of docs/internals/architecture.md. A package that is not listed here
// cannot import anything of the module. Every package may import internal packages, which may import only each other.
var rooms = map[string][]string{
	"mapping": {"datatype", "mapping/internal/..."},
	// The scan of JSON, and the compiler of templates on it.
	"mapping/internal/tape":     {},
	"mapping/internal/template": {"mapping/internal/tape"},
	// What knows no row.
	"datatype": {},
	// The contract of drivers. It does not know the buffer that calls them.
	"driver":         {"datatype"},
	"otlpflat":       {"datatype", "mapping"},
	"trigger":        {},
	"extractor":      {"extractor/internal/..."},
	"extractor/...":  {"extractor/internal/..."},
	"extractor/feed": {"extractor", ".", "driver", "buffer", "buffer/dir", "mapping"},
	// The component joins two rooms that do not know each other.
	"extractor/component": {"extractor", "storageapi", "storageapi/platform"},
	"buffer":              {"datatype", "driver", "trigger", "buffer/internal/..."},
	"buffer/internal/...": {"datatype", "trigger", "buffer/internal/..."},
	"buffer/buffertest":   {"datatype", "driver", "buffer"},
	"buffer/dir":          {"datatype", "driver", "driverkit/parts"},
	"buffer/...":          {"datatype", "driver"},
	"cluster/...":         {".", "trigger", "driver", "buffer", "catalog", "stream", "stream/streamapi", "cluster/..."},
	"cluster/changelog":   {}, "cluster/changelog/changelogtest": {"cluster/changelog"},
	// Features next to the engine, which use it through their own interface.
	"shadow":        {"mapping", "driver", "buffer"},
	"replay":        {"mapping", "driver", "buffer"},
	"quarantine":    {"datatype", "mapping", "buffer"},
	"erase":         {"datatype", "mapping", "driver", "buffer", "quarantine"},
	"internal/kept": {"datatype", "mapping", "driver", "buffer"},
	".":             {"datatype", "mapping", "otlpflat", "trigger", "driver", "buffer/...", "shadow", "replay", "quarantine", "erase"},
	// What drivers share.
	"driverkit/...":      {"datatype", "driver"},
	"driverkit/celltype": {"datatype"},
	"driverkit/ctxio":    {}, "driverkit/keylock": {}, "driverkit/quotes": {}, "driverkit/textcut": {}, "driverkit/userinfo": {}, "driverkit/uuidtext": {},
	"drivers/...": {"datatype", "driver", "driverkit/...", "drivers/..."},
	// Objects of an archive are made in a folder, and then stored.
	"drivers/bucket":                    {"datatype", "driver", "driverkit/...", "buffer/dir", "drivers/parquet", "drivers/parquet/parquettest"},
	"drivers/parquet/parquettest":       {"datatype", "buffer/buffertest"},
	"drivers/postgres/pgtest":           {"internal/servertest"},
	"drivers/mysql/mysqltest":           {"internal/servertest"},
	"drivers/clickhouse/clickhousetest": {"internal/servertest"},
	// A command that measures a cluster, and a command that compares a driver with the loader of its database.
	"cluster/bench":                  {"./..."},
	"cluster/duckdbtest":             {"./..."},
	"drivers/bucket/bench":           {"./..."},
	"drivers/iceberg/bench":          {"./..."},
	"drivers/duckdb/bench":           {"./..."},
	"drivers/parquet/bench":          {"./..."},
	"drivers/mysql/bench":            {"./..."},
	"drivers/clickhouse/bench":       {"./..."},
	"drivers/postgres/bench":         {"./..."},
	"drivers/sqlite/bench":           {"./..."},
	"internal/missing":               {"driver"},
	"internal/mappers":               {"mapping"},
	"internal/callrows":              {"buffer"},
	"internal/callspans":             {"buffer"},
	"internal/maproom":               {"buffer"},
	"internal/receipt":               {"buffer"},
	"internal/rejections":            {"mapping"},
	"internal/tailrows":              {"buffer"},
	"internal/tables":                {"datatype", "mapping", "driver", "buffer"},
	"internal/importbench":           {"datatype", "driver"},
	"internal/pipebench":             {"./..."},
	"internal/clienttest":            {"./..."},
	"console":                        {"datatype", ".", "mapping", "trigger", "driver", "buffer", "catalog"},
	"console/browsertest":            {"./..."},
	"catalog":                        {"datatype", ".", "mapping", "trigger", "driver", "buffer"},
	"stream":                         {"datatype", ".", "mapping", "otlpflat", "buffer", "stream/internal/..."},
	"stream/internal/...":            {".", "buffer"},
	"stream/refusal":                 {},
	"stream/requestid":               {},
	"stream/streamapi":               {"datatype", ".", "catalog", "mapping", "buffer", "stream", "stream/internal/..."},
	"storageapi/...":                 {"datatype", "driver", "storageapi/..."},
	"storageapi/platform/clienttest": {"./..."},
	"internal/...":                   {"datatype", "internal/..."},
	"internal/otlp":                  {".", "mapping", "otlpflat"},
	"driverkit/parts":                {"datatype", "driver", "driverkit/..."},
	"internal/otlptest":              {"./..."},
	"internal/collectortest":         {"./..."},
	"internal/viewtest":              {"./..."},
	"internal/refusedtest":           {"./..."},
	"internal/drivertest":            {"driver", "datatype", "buffer/buffertest", "internal/modetest", "internal/servertest"},
	"internal/erasetest":             {"./..."},
	"internal/fulldisktest":          {"./..."},
	"internal/manytablestest":        {"./..."},
	"internal/placetest":             {"./..."},
	"internal/sqltest":               {"datatype", "driver", "buffer/dir", "drivers/parquet"},
	"stream/otlpgrpc":                {".", "mapping", "trigger", "buffer", "stream/internal/...", "stream"}, // stream for its tests alone
	"stream/fastserver":              {"stream", "mapping"},                                                  // its tests alone
	"stream/platformauth":            {"stream", "stream/streamapi", "catalog", "storageapi"},
	"forebaytest":                    {"datatype", ".", "mapping", "driver", "buffer", "buffer/buffertest"},
	"internal/soak":                  {"./..."},
	"internal/soak/week":             {"./..."},
	"bench":                          {"./..."},
	"bench/peers":                    {"./..."},
	"examples/...":                   {"./..."},
	"internal/program/...":           {"./..."},
	"cmd/...":                        {"./..."},
}

// lean are the packages that add no dependency. In addition to the standard library and this module they may import only the
// listed prefixes. The directory driver and its folders may use the dependencies of the contract below them.
var lean = map[string][]string{
	"datatype":          {},
	"driver":            {"github.com/klauspost/compress/zstd"}, // which brings nothing along
	"trigger":           {},
	"cluster/changelog": {"github.com/cespare/xxhash/"},
	"extractor":         {"github.com/cenkalti/backoff/", "golang.org/x/text/"}, // which bring nothing along
	// What is below the extractor is a part of it.
	"extractor/internal/tree":     {},
	"extractor/internal/datetext": {},
	"extractor/internal/function": {},
	"extractor/internal/flatten":  {},

	"buffer/dir":        {"github.com/klauspost/compress/"},
	"driverkit/parts":   {"golang.org/x/sys/unix"},
	"stream/fastserver": {},
	"console":           {},
}

// shared are packages that any other may import, because they need at most package datatype.
var shared = []string{
	"driverkit/buildversion", "driverkit/celltype", "driverkit/ctxio", "driverkit/jsontext", "driverkit/keylock", "driverkit/quotes", "driverkit/textcut",
	"driverkit/userinfo", "driverkit/uuidtext", "driverkit/warnlog", "stream/refusal", "stream/requestid",
}

// apart are the rooms and folders in separate modules that use only the exported API of the main module.
var apart = []string{"drivers", "console", "extractor", "storageapi/platform", "cluster", "stream/otlpgrpc"}

// inside are the internal packages that such a folder imports nevertheless. A store that survives a full or failing disk takes 3,300 lines, and an
// exported form would promise the repair and the copies of stores too. A node restores such stores, and opens engines on the disk of a test. The
// server of gRPC reads the same requests as package stream, and an exported form would promise each part of that reading.
var inside = map[string][]string{
	"storageapi/platform":         {"internal/pebblestore"},
	"cluster":                     {"internal/localdisk", "internal/pebblestore"},
	"cluster/internal/checkpoint": {"internal/localdisk", "internal/pebblestore"},
	"cluster/internal/instance":   {"internal/localdisk", "internal/pebblestore"},
	"stream/otlpgrpc":             {"internal/callkey", "internal/deadline", "internal/intake", "internal/otlp", "internal/tracecontext"},
}

func importRules() []rule {
	return []rule{
		{
			name:  "layers",
			check: checkLayers,
			why: "Data goes one way, and a package knows only the packages below it (docs/internals/architecture.md). Move the shared part " +
				"down or into internal/, or pass it in from the engine. A new package gets its line in imports_test.go.",
		},
		{
			name:  "lean packages",
			check: checkLean,
			why:   "This package promises to bring no dependency along. Use the standard library, or make a nested module.",
		},
		{
			name:  "testing stays in tests",
			check: checkTesting,
			why: "A library that imports testing adds its flags and weight to every user's program. Only packages for tests, " +
				"whose names end with \"test\", may do that.",
		},
		{
			name:  "separate modules use the exported API",
			check: checkApart,
			why: "A driver, the console, the extractor, the platform and the cluster are separate modules, and anybody can write such a module. Code that they share " +
				"is in driverkit, with a version. Tests, kits for tests and programs that measure may use internal packages.",
		},
		{
			name:  "the main module requires no other",
			check: checkMain,
			why: "A program that embeds the engine downloads the modules that the main module requires, and the others require the main module. Put the " +
				"code, or its test, into the other module.",
		},
		{
			name:  "programs use the exported API",
			check: checkPrograms,
			why: "examples, cmd and bench show what a user can do. If they need something internal, it is missing in the API. Only " +
				"the disk that bench measures on is chosen inside of the module, programs share what is in internal/program, and tests use kits for tests.",
		},
	}
}

// permits reports whether a pattern of rooms covers the folder.
func permits(pattern, dir string) bool {
	prefix, below := strings.CutSuffix(pattern, "/...")
	if !below {
		return pattern == dir
	}
	return prefix == "." || dir == prefix || strings.HasPrefix(dir, prefix+"/")
}

// allowedIn returns what dir may import. The longest pattern that covers it decides.
func allowedIn(dir string) (allowed []string, known bool) {
	var patterns []string
	for p := range rooms {
		if permits(p, dir) {
			patterns = append(patterns, p)
		}
	}
	if len(patterns) == 0 {
		return nil, false
	}
	// The exact name wins over a pattern with dots, and a longer pattern over a shorter one.
	best := slices.MaxFunc(patterns, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(strings.TrimSuffix(a, "/...")), len(strings.TrimSuffix(b, "/..."))),
			cmp.Compare(len(b), len(a)))
	})
	return rooms[best], true
}

func checkLayers(t *tree) []problem {
	var problems []problem
	for _, f := range t.files {
		allowed, known := allowedIn(f.dir)
		if !known {
			problems = append(problems, problem{f.path, "folder " + f.dir + " has no entry in the table of rooms"})
			continue
		}
		if f.test {
			// Tests may also use what drivers share, the default drivers and the conformance suites.
			allowed = append(slices.Clone(allowed), "driver", "driverkit/...", "buffer", "buffer/dir", "buffer/buffertest", ".")
			if f.room() == "drivers" || f.room() == "cluster" {
				allowed = append(allowed, "datatype", "mapping", "trigger", "cluster/changelog/changelogtest") // of the engine that a driver or a node is tested with
			}
			if f.room() == "internal" {
				allowed = []string{"./..."} // a test of several rooms together has its place there
			}
			if f.room() == "mapping" || f.room() == "trigger" || f.room() == "extractor" {
				allowed, _ = allowedIn(f.dir)
			}
		}
		for _, p := range f.imports() {
			dir, ours := inModule(p)
			if !ours || dir == f.dir {
				continue
			}
			if permits("internal/...", dir) && !f.program() || slices.Contains(shared, dir) {
				continue
			}
			if !slices.ContainsFunc(allowed, func(a string) bool { return permits(a, dir) }) {
				problems = append(problems, problem{f.path, f.dir + " must not import " + dir})
			}
		}
	}
	return problems
}

// inModule returns the folder of an imported package of this module.
func inModule(importPath string) (dir string, ok bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func checkLean(t *tree) []problem {
	var problems []problem
	for _, f := range t.files {
		allowed, isLean := lean[f.dir]
		if f.test || !isLean {
			continue
		}
		for _, p := range f.imports() {
			first, _, _ := strings.Cut(p, "/")
			if _, ours := inModule(p); ours || !strings.Contains(first, ".") {
				continue
			}
			if !slices.ContainsFunc(allowed, func(prefix string) bool { return strings.HasPrefix(p, prefix) }) {
				problems = append(problems, problem{f.path, f.dir + " must not import " + p})
			}
		}
	}
	return problems
}

func checkTesting(t *tree) []problem {
	var problems []problem
	for _, f := range t.files {
		if f.test || f.program() || f.kit() {
			continue
		}
		for _, p := range f.imports() {
			if p == "testing" || strings.HasPrefix(p, "testing/") || strings.HasSuffix(p, "test") && strings.HasPrefix(p, module) {
				problems = append(problems, problem{f.path, "imports " + p + " outside of a test"})
			}
		}
	}
	return problems
}

func checkApart(t *tree) []problem {
	var problems []problem
	for _, f := range t.files {
		if f.test || f.program() || f.kit() || !slices.ContainsFunc(apart, func(dir string) bool { return permits(dir+"/...", f.dir) }) {
			continue
		}
		for _, p := range f.imports() {
			if dir, ours := inModule(p); ours && strings.HasPrefix(dir, "internal/") && !slices.Contains(inside[f.dir], dir) {
				problems = append(problems, problem{f.path, "imports " + p})
			}
		}
	}
	return problems
}

func checkMain(t *tree) []problem {
	if strings.Contains(t.texts["go.mod"], module+"/") {
		return []problem{{"go.mod", "requires or replaces a module of this repository"}}
	}
	return nil
}

// harness starts the processes that bench/peers compares, and reads their responses.
var harness = []string{"internal/pipebench", "internal/porttest", "internal/proctest"}

func checkPrograms(t *tree) []problem {
	var problems []problem
	for _, f := range t.files {
		room := f.room()
		if room != "examples" && room != "cmd" && room != "bench" && !f.shared() {
			continue
		}
		for _, p := range f.imports() {
			dir, ours := inModule(p)
			allowed := room == "bench" && dir == "internal/localdisk" || room != "bench" && strings.HasPrefix(dir, "internal/program/") ||
				f.test && strings.HasSuffix(dir, "test") || f.dir == "bench/peers" && slices.Contains(harness, dir)
			if ours && strings.Contains("/"+dir+"/", "/internal/") && !allowed {
				problems = append(problems, problem{f.path, "imports " + p})
			}
		}
	}
	return problems
}

func importBreaches() []breach {
	source := func(importPath string) string { return "package p\nimport _ \"" + importPath + "\"\n" }
	return []breach{
		{"layers", []string{"mapping/a.go", source(module + "/trigger")}, []string{"mapping must not import trigger"}},
		{"layers", []string{"mapping/a_test.go", source(module)}, []string{"mapping must not import ."}},
		{"layers", []string{"trigger/a.go", source(module + "/buffer")}, []string{"trigger must not import buffer"}},
		{"layers", []string{"buffer/a.go", source(module + "/mapping")}, []string{"buffer must not import mapping"}},
		{"layers", []string{"driver/a.go", source(module + "/buffer")}, []string{"driver must not import buffer"}},
		{"layers", []string{"drivers/a/a.go", source(module + "/buffer")}, []string{"drivers/a must not import buffer"}},
		{"layers", []string{"buffer/dir/a.go", source(module + "/trigger")}, []string{"buffer/dir must not import trigger"}},
		{"layers", []string{"buffer/s3/a.go", source(module)}, []string{"buffer/s3 must not import ."}},
		{"layers", []string{"a.go", source(module + "/stream")}, []string{". must not import stream"}},
		{"layers", []string{"attic/a.go", "package p"}, []string{"folder attic has no entry"}},
		{"layers", []string{"internal/x/a.go", source(module + "/mapping")}, []string{"internal/x must not import mapping"}},
		{"layers", []string{"buffer/a.go", source(module + "/trigger"), "buffer/s3/a.go", source(module + "/driver")}, nil},
		{"layers", []string{"a.go", source(module + "/buffer/dir"), "mapping/a.go", source(module + "/internal/x")}, nil},
		{"layers", []string{"stream/a.go", source(module), "bench/a.go", source(module + "/stream")}, nil},
		{"layers", []string{"buffer/a_test.go", source(module + "/buffer/buffertest"), "internal/x/a_test.go", source(module)}, nil},
		{"layers", []string{"drivers/a/a_test.go", source(module + "/mapping"), "drivers/a/a.go", source(module + "/driver")}, nil},
		{"lean packages", []string{"buffer/dir/a.go", source("github.com/x/y")}, []string{"must not import github.com/x/y"}},
		{"lean packages", []string{"buffer/dir/a.go", source("github.com/klauspost/compress/gzip"), "buffer/a.go", source("github.com/x/y")}, nil},
		{"testing stays in tests", []string{"buffer/a.go", source("testing")}, []string{"imports testing"}},
		{"testing stays in tests", []string{"a.go", source(module + "/buffer/buffertest")}, []string{"imports " + module}},
		{"testing stays in tests", []string{"buffer/buffertest/a.go", source("testing"), "a_test.go", source("testing"), "bench/a.go", source("testing")}, nil},
		{"separate modules use the exported API", []string{"drivers/a/a.go", source(module + "/internal/x")}, []string{"internal/x"}},
		{"separate modules use the exported API", []string{"cluster/internal/a/a.go", source(module + "/internal/pebblestore")}, []string{"internal/pebblestore"}},
		{"separate modules use the exported API", []string{"stream/otlpgrpc/a.go", source(module + "/internal/otlp"), "stream/a.go", source(module + "/internal/x")}, nil},
		{"separate modules use the exported API", []string{"extractor/feed/a.go", source(module + "/internal/x")}, []string{"internal/x"}},
		{"separate modules use the exported API", []string{"storageapi/platform/a.go", source(module + "/internal/x")}, []string{"internal/x"}},
		{"separate modules use the exported API", []string{"storageapi/platform/a.go", source(module + "/internal/pebblestore"), "storageapi/a.go", source(module + "/internal/x")}, nil},
		{"separate modules use the exported API", []string{
			"drivers/a/a.go", source(module + "/driverkit/x"), "drivers/a/a_test.go", source(module + "/internal/x"), "drivers/a/bench/a.go", "package main\nimport _ \"" + module + "/internal/x\"\n",
		}, nil},
		{"the main module requires no other", []string{"go.mod", "module " + module + "\nrequire " + module + "/console v0.1.0\n"}, []string{"requires"}},
		{"the main module requires no other", []string{"go.mod", "module " + module + "\n", "console/go.mod", "require " + module + "/x v0.1.0\n"}, nil},
		{"programs use the exported API", []string{"bench/a.go", source(module + "/internal/x")}, []string{"internal/x"}},
		{"programs use the exported API", []string{"bench/a.go", source(module + "/internal/proctest")}, []string{"internal/proctest"}},
		{"programs use the exported API", []string{"bench/peers/a.go", source(module + "/internal/x")}, []string{"internal/x"}},
		{"programs use the exported API", []string{"bench/a.go", source(module + "/internal/program/x")}, []string{"internal/program/x"}},
		{"programs use the exported API", []string{"internal/program/a/a.go", source(module + "/internal/x")}, []string{"internal/x"}},
		{"programs use the exported API", []string{"cmd/a/a.go", source(module + "/internal/xtest")}, []string{"internal/xtest"}},
		{"programs use the exported API", []string{"cmd/a/a_test.go", source(module + "/internal/x")}, []string{"internal/x"}},
		{"programs use the exported API", []string{"cmd/a/a_test.go", source(module + "/internal/xtest")}, nil},
		{"programs use the exported API", []string{"examples/a/a.go", source(module + "/internal/program/x")}, nil},
	}
}
