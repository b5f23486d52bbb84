// Command footprint measures what each part of Forebay adds to a program, in bytes of the binary and number of packages. It writes the table of
// docs/internals/footprint.md.
//
//	go run ./internal/footprint
//
// Each line is a separate program that links the named function and therefore all that it can call.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// probe is a program that imports packages and keeps some of their functions, with what these can call.
type probe struct {
	name  string
	paths []string
	keep  []string
	tags  string
	// module is the folder of the module that builds the program.
	module string
}

func probes() []probe {
	const root = "github.com/forebay/forebay"
	engine := probe{
		"the engine: `forebay`, `mapping`",
		[]string{root, root + "/mapping"},
		[]string{"forebay.Open", "(*forebay.Engine).Define", "(*forebay.Engine).Ingest", "(*forebay.Engine).Flush", "(*forebay.Engine).Close", "mapping.Path"},
		"", ".",
	}
	small := engine
	small.name, small.tags = small.name+", built with `-tags forebay_notemplates`", "forebay_notemplates"
	with := func(path string, keep ...string) probe {
		return probe{"the engine and `" + path + "`", append(engine.paths[:2:2], root+"/"+path), append(engine.keep[:len(engine.keep):len(engine.keep)], keep...), "", "."}
	}
	guest := func(path string, keep ...string) probe {
		p := with(path, keep...)
		p.module = path
		return p
	}
	return []probe{
		{"`fmt`", []string{"fmt"}, []string{"fmt.Println"}, "", "."},
		{"`net/http`, a server", []string{"net/http"}, []string{"http.ListenAndServe"}, "", "."},
		{"the database pebble", []string{"github.com/cockroachdb/pebble/v2"}, []string{"pebble.Open", "(*pebble.DB).NewIter", "(*pebble.DB).Apply"}, "", "."},
		{"`mapping`", []string{root + "/mapping"}, []string{"mapping.Compile"}, "", "."},
		engine,
		small,
		with("otlpflat", "otlpflat.Logs"),
		with("stream", "stream.Ingest"),
		with("catalog", "catalog.Open"),
		with("stream/streamapi", "streamapi.New"),
		guest("console", "console.New"),
		guest("extractor", "extractor.Run"),
		guest("stream/otlpgrpc", "otlpgrpc.Register"),
		guest("drivers/sqlite", "sqlite.Open"),
		guest("drivers/postgres", "postgres.Open"),
		guest("drivers/mysql", "mysql.Open"),
		guest("drivers/clickhouse", "clickhouse.Open"),
		guest("drivers/parquet", "parquet.Tables"),
		guest("drivers/bucket", "bucket.Open"),
		guest("drivers/duckdb", "duckdb.Open"),
		guest("drivers/iceberg", "iceberg.Open"),
		guest("cluster", "cluster.Open"),
	}
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "forebay-footprint-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	fmt.Println("| a program with | MB | without symbols (`-ldflags='-s -w'`) | packages |\n|---|---|---|---|")
	for i, p := range probes() {
		if err := p.measure(root, filepath.Join(tmp, fmt.Sprint(i))); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// measure builds the program in place of a package that the module does not have, so that it may import internal ones and needs no go.mod.
func (p probe) measure(root, tmp string) error {
	var source strings.Builder
	source.WriteString("package main\n\n")
	for _, path := range p.paths {
		fmt.Fprintf(&source, "import %q\n", path)
	}
	fmt.Fprintf(&source, "\nvar Keep = []any{%s}\n\nfunc main() { println(len(Keep)) }\n", strings.Join(p.keep, ", "))
	if err := os.WriteFile(tmp+".go", []byte(source.String()), 0o600); err != nil {
		return err
	}
	dir := filepath.Join(root, p.module, "internal", "footprint", "probe")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(dir, "main.go"): tmp + ".go"}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(tmp+".json", overlay, 0o600); err != nil {
		return err
	}
	var size [2]int64
	for i, flags := range []string{"", "-s -w"} {
		if _, err := p.goCommand("build", "-tags", p.tags, "-overlay", tmp+".json", "-ldflags", flags, "-o", tmp+".exe", "./internal/footprint/probe"); err != nil {
			return err
		}
		info, err := os.Stat(tmp + ".exe")
		if err != nil {
			return err
		}
		size[i] = info.Size()
	}
	packages, err := p.goCommand("list", "-tags", p.tags, "-overlay", tmp+".json", "-deps", "./internal/footprint/probe")
	if err != nil {
		return err
	}
	fmt.Printf("| %s | %.1f | %.1f | %d |\n", p.name, float64(size[0])/1e6, float64(size[1])/1e6, strings.Count(packages, "\n"))
	return nil
}

func (p probe) goCommand(args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = p.module, append(os.Environ(), "GOWORK=off")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	return string(out), err
}
