// Command bench measures the import into MariaDB compared with LOAD DATA LOCAL of its client. It starts its own server.
//
//	go run ./bench -json
package main

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/drivers/mysql"
	"github.com/forebay/forebay/drivers/mysql/mysqltest"
	"github.com/forebay/forebay/internal/importbench"
	"github.com/forebay/forebay/internal/pipebench"
)

func main() { os.Exit(pipebench.Main(os.Args[1:], os.Stdout, os.Stderr, run)) }

// database is where the table is.
const database = "bench"

func run(ctx context.Context, args []string, stdout io.Writer) error {
	var server mysqltest.Server
	defer server.Close()
	if err := server.Start(); err != nil {
		return err
	}
	w := ways{server: &server, url: server.URL(database)}
	insert := w
	insert.options.InsertOnly = true
	return importbench.Run(
		ctx, args, stdout, importbench.Scenario{Name: "import/mysql", Import: w.driver, Loader: w.client, Goal: 0.9},
		// A server without local_infile.
		importbench.Scenario{Name: "import/mysql-insert", Import: insert.driver, Loader: w.client, Goal: 0.5},
	)
}

// ways import into a table that Ensure makes.
type ways struct {
	server  *mysqltest.Server
	url     string
	options mysql.Options
}

func (w ways) driver(ctx context.Context, _ string, in importbench.Input) (func() error, func() (int64, error), error) {
	target, err := w.prepare(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	return importbench.Into(ctx, in, target, w.count)
}

// client loads the rows from a file in the form that its statement reads without options, which is made before. So it parses less than from CSV.
func (w ways) client(ctx context.Context, dir string, in importbench.Input) (func() error, func() (int64, error), error) {
	target, err := w.prepare(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	target.Close()
	path := filepath.Join(dir, "rows")
	if err := writeRows(ctx, path, in.File); err != nil {
		return nil, nil, err
	}
	statement := fmt.Sprintf("LOAD DATA LOCAL INFILE '%s' INTO TABLE %s.events CHARACTER SET utf8mb4", path, database)
	run := func() error {
		cmd := exec.CommandContext(ctx, "mariadb", append(w.server.ClientArguments(), "--local-infile=1", "-e", statement)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("mariadb: %w: %.300s", err, out)
		}
		return nil
	}
	return run, w.count, nil
}

// writeRows writes the rows of a file as the client reads them.
func writeRows(ctx context.Context, path string, f *driver.File) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(file)
	escape := strings.NewReplacer(`\`, `\\`, "\t", `\t`, "\n", `\n`)
	rows := f.ReadRows(ctx)
	defer rows.Close()
	for rows.Next() {
		for i, cell := range rows.Cells() {
			text := escape.Replace(string(cell))
			switch typ := f.Table.Columns[i].Type; {
			case cell == nil:
				text = `\N`
			case typ == datatype.Timestamp:
				text = strings.NewReplacer("T", " ", "Z", "").Replace(text)
			case typ == datatype.Bool:
				text = map[string]string{"true": "1", "false": "0"}[text]
			}
			if i > 0 {
				text = "\t" + text
			}
			_, _ = out.WriteString(text) // Flush has the error
		}
		_ = out.WriteByte('\n')
	}
	return errors.Join(rows.Err(), out.Flush(), file.Close())
}

// prepare returns a target whose database has the table, empty.
func (w ways) prepare(ctx context.Context, in importbench.Input) (*mysql.Target, error) {
	db, err := w.server.Open("")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "DROP DATABASE IF EXISTS "+database+"; CREATE DATABASE "+database); err != nil {
		return nil, err
	}
	target, err := mysql.Open(w.url, w.options)
	if err != nil {
		return nil, err
	}
	if err := target.Ensure(ctx, in.File.Table); err != nil {
		target.Close()
		return nil, err
	}
	return target, nil
}

func (w ways) count() (rows int64, err error) {
	var db *sql.DB
	if db, err = w.server.Open(database); err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.QueryRow("SELECT COUNT(*) FROM events").Scan(&rows)
	return rows, err
}
