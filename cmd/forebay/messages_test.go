package main

import (
	"net"
	"os"
	"strings"
	"testing"

	"github.com/forebay/forebay/internal/messagetest"
)

// Every mistake of a call gets a message that names the thing, its place and the next step, in words of a user without a Go program. No
// message shows a secret.
func TestMessagesOfMistakes(t *testing.T) {
	folder := t.TempDir()
	t.Chdir(folder)
	for name, text := range map[string]string{
		"file": "no folder", "notadb.db": "this is no database\n", "tab.yaml": "sources:\n\t- id: web\n", "list.yaml": "- a\n", "empty.yaml": "", "broken.yaml": "sources: [",
		"typo.yaml": "max-conections: 5\n", "word.yaml": "merge-to: much\n", "jobs.json": `{"api":{"baseUrl":"http://127.0.0.1:1"},"config":{"jbs":[{"endpoint":"x"}]}}`,
		"nojson.json": "{", "bad.json": "{",
		"columns.yaml": "sources:\n- id: web\n  secret: 0123456789abcdef\n  sinks:\n  - id: a\n    table: t\n    columns:\n" +
			"    - {name: b, type: template, template: 'x'}\n    - {name: c, type: path, path: 'a['}\n    - {name: d, type: path, path: a, required: true}\n" +
			"    - {name: e, type: template, template: 'std.nope(1)'}\n    - {name: f, type: template, template: 'import 1'}\n",
		"path.yaml":      "sources:\n- id: web\n  secret: 0123456789abcdef\n  sinks:\n  - id: a\n    table: t\n    columns:\n    - {name: e, type: path}\n",
		"id.yaml":        "sources: [{id: web, secret: 0123456789abcdef, sinks: [{id: a, table: t, columns: [{name: b, type: path, path: x}]}]}]\n",
		"sample.json":    `{"a":1,`,
		"partition.yaml": "partition-by: nosuch\nsources: [{id: web, secret: 0123456789abcdef, sinks: [{id: a, table: t, columns: [{name: b, type: body}]}]}]\n",
		"web.yaml":       "sources: [{id: web, secret: '${WEB_SECRET}', quarantine: {}, sinks: [{id: events, table: events, columns: [{name: body, type: body}]}]}]\n",
		"unset.yaml":     "sources: [{id: web, secret: '${UNSET_SECRET}'}]\n",
		"more.yaml":      "target: sqlite:events.db\nsources: [{id: web, secret: '${WEB_SECRET}', sinks: [{id: events, table: events, columns: [{name: body, type: body}, {name: more, type: body}]}]}]\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"WEB_SECRET": webSecret}
	s := serve(t, secrets(), "-config", "web.yaml", "-dir", "data", "-target", "sqlite:events.db")
	if status, text := s.post("ingest", "/stream/1/web/"+webSecret, `{}`); status != 200 {
		t.Fatalf("got %d %s, want 200", status, text)
	}
	defer s.stop()
	if status, out, errs := call(t, "", nil, "demo", "-n", "1", "-dir", "old"); status != 0 {
		t.Fatalf("got %s%s, want status == 0", out, errs)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := l.Addr().String() // nothing listens there
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		call              string
		status            int
		what, where, next string
	}{
		{``, wrongUsage, `forebay stores events`, `forebay COMMAND`, `Start with`},
		{`srve`, wrongUsage, `there is no command`, `"srve"`, `do you mean "serve"?`},
		{`help srve`, wrongUsage, `there is no command or subject`, `"srve"`, `do you mean "serve"?`},
		{`serve -adr :1`, wrongUsage, `there is no flag`, `-adr`, `do you mean -addr?`},
		{`serve extra`, wrongUsage, `unexpected argument`, `"extra"`, `flags begin with a dash`},
		{`serve -target oracle://me:hunter2@db/x`, wrongUsage, `"oracle", which does not exist`, `-target`, `sqlite:FILE, duckdb:FILE, postgres://`},
		{`serve -target host=db_password=hunter2`, wrongUsage, `must begin with its kind`, `-target`, `sqlite:FILE, duckdb:FILE, postgres://`},
		{`serve -staging s4:hunter2`, wrongUsage, `"s4", which does not exist`, `-staging`, `dir:FOLDER`},
		{`serve -target sqlite:`, wrongUsage, `"sqlite" without a place`, `-target`, `write one of`},
		{`serve -target s3://hunter2`, wrongUsage, `"s3", which does not exist`, `-target`, `write one of`},
		{`serve -staging s3://`, wrongUsage, `"s3" without a place`, `-staging`, `write one of`},
		{`serve -target sqlite:s3://bucket/hunter2`, wrongUsage, `takes no s3:// address`, `-target`, `-staging takes a bucket`},
		{`serve -target parquet:s3://bucket/x -merge-to 1000000 -dir x`, wrongUsage, `neither merged nor removed`, `-merge-to`, `leave it out`},
		{`serve -target sqlite:x.db -gzip`, wrongUsage, `is for tables in folders`, `-gzip`, `leave it out`},
		{`serve -config none.yaml`, wrongUsage, `no such file`, `none.yaml`, `name a file`},
		{`serve -config tab.yaml`, wrongUsage, `a tab`, `tab.yaml:2:1`, `indented with spaces`},
		{`serve -config list.yaml`, wrongUsage, `it is a list`, `list.yaml:1:1`, `must have keys with values`},
		{`serve -config empty.yaml`, wrongUsage, `is empty`, `empty.yaml`, `"forebay help file" has an example`},
		{`serve -config broken.yaml`, wrongUsage, `neither YAML nor JSON`, `broken.yaml`, `"forebay help file" has an example`},
		{`serve -log-level verbose`, wrongUsage, `"verbose"`, `-log-level`, `must be debug, info, warn or error`},
		{`serve -log-format xml`, wrongUsage, `"xml"`, `-log-format`, `must be text or json`},
		{`serve -keep-for 30x`, wrongUsage, `"30x"`, `-keep-for`, `a duration such as 90s, 36h or 30d`},
		{`serve -max-connections many`, wrongUsage, `"many"`, `-max-connections`, `want a whole number`},
		{`serve -max-disk-bytes 4GB`, wrongUsage, `"4GB"`, `-max-disk-bytes`, `want a whole number without a unit`},
		{`serve -max-disk-bytes 99999999999999999999`, wrongUsage, `"99999999999999999999"`, `-max-disk-bytes`, `want a whole number`},
		{`serve -ui=maybe`, wrongUsage, `"maybe"`, `-ui`, `want true or false`},
		{`serve -addr here`, wrongUsage, `"here"`, `-addr`, `must be HOST:PORT`},
		{`serve -dir file -addr 127.0.0.1:0 -api-addr 127.0.0.1:0`, failed, `file cannot be a folder`, `-dir`, `choose a path`},
		{`serve -dir data -addr 127.0.0.1:0 -api-addr 127.0.0.1:0`, failed, `in use by another engine`, `data`, `choose another folder`},
		{`serve -target sqlite:notadb.db -dir x -addr 127.0.0.1:0 -api-addr 127.0.0.1:0`, failed, `is no SQLite database`, `notadb.db`, `name a different one`},
		{`serve -target-options {lockTimout:_5s} -target sqlite:x.db`, wrongUsage, `unknown key "lockTimout"`, `-target-options`, `do you mean "lockTimeout"?`},
		{`otlp -source x`, wrongUsage, `is a flag of serve`, `-source`, `otlp has its source`},
		{`check`, wrongUsage, `file`, `-config`, `shows examples`},
		{`check -config typo.yaml`, wrongUsage, `unknown key`, `typo.yaml:1:1`, `do you mean "max-connections"?`},
		{`check -config word.yaml`, wrongUsage, `"much"`, `word.yaml:1:11`, `want a whole number`},
		{`check -config partition.yaml`, failed, `no table has the column "nosuch"`, `partition-by`, `name a column of type date or timestamp`},
		{`check -config more.yaml`, failed, `the table has no "more"`, `table "events"`, `or set extend so that the table accepts them`},
		{`check -config unset.yaml`, wrongUsage, `UNSET_SECRET is not set`, `unset.yaml:1:29`, `set it before the start`},
		{`check -offline -config columns.yaml`, wrongUsage, `unknown variable: x`, `columns.yaml:8:43: column 1 ("b")`, `write Body("x") for a field of the event`},
		{`check -offline -config columns.yaml`, wrongUsage, `'[' without ']'`, `columns.yaml:9:35: column 2 ("c")`, `write an index or a quoted key`},
		{`check -offline -config columns.yaml`, wrongUsage, `applies only to columns with a dataType`, `columns.yaml:10:48: column 3 ("d")`, `remove it`},
		{`check -offline -config columns.yaml`, wrongUsage, `no member "nope"`, `columns.yaml:11:43: column 4 ("e")`, `use a function of jsonnet`},
		{`check -offline -config path.yaml`, wrongUsage, `path is required`, `path.yaml:8:7`, `add it, such as path: user.id`},
		{`check -offline -config id.yaml -sample sample.json`, failed, `not valid JSON: unexpected end at byte 7`, `event 1: column "b"`, `send the whole JSON value`},
		{`templates -e x`, failed, `unknown variable: x`, `1:1`, `write Body("x") for a field of the event`},
		{`templates -e Body("a[")`, failed, `'[' without ']'`, `1:1: Body: the path "a["`, `write an index or a quoted key`},
		{`completion`, wrongUsage, `there is no command`, `"completion".`, `There are serve`},
		{`size nope`, failed, `is not a data directory`, `nope`, `name the -dir of a server`},
		{`serve -max-body-bytes 0`, wrongUsage, `is 0`, `-max-body-bytes`, `must be 100 to`},
		{`demo -n 0`, wrongUsage, `is 0`, `-n`, `must be 1 to`},
		{`demo -n x`, wrongUsage, `"x"`, `-n`, `want a whole number`},
		{`demo -bad 101`, wrongUsage, `is 101`, `-bad`, `must be 0 to 100`},
		{`demo extra`, wrongUsage, `unexpected argument`, `"extra"`, `flags begin with a dash`},
		{`demo -ui -crash`, wrongUsage, `exclude each other`, `-ui and -crash`, `Leave one out`},
		{`demo -dir file`, failed, `file cannot be a folder`, `-dir`, `choose a path`},
		{`demo -n 1 -dir x -target iceberg:gs://bucket/x`, failed, `takes no gs:// address`, `-target iceberg`, `write a folder`},
		{`demo -n 1 -dir x -target iceberg:https://me:hunter2@host`, failed, `has a password`, `the address of the catalog`, `set in the environment`},
		{`demo -n 1 -dir x -target iceberg:https://host?token=hunter2`, failed, `a parameter twice or that it cannot have`, `the address of the catalog`, `ICEBERG_TOKEN`},
		{`demo -n 1 -dir x -target iceberg:https://host?warehouse=%hunter2`, failed, `cannot be read`, `the catalog's address`, `write NAME=VALUE`},
		{`demo -n 1 -dir x -target iceberg:https://?warehouse=hunter2`, failed, `cannot be read`, `the address of the catalog`, `https://`},
		{`demo -n 1 -dir x -target iceberg:http://SILENT/c?warehouse=w`, failed, `no server responds`, `SILENT`, `is it running`},
		{`demo -n 1 -dir x -staging s3://me:hunter2@bucket/x`, failed, `has credentials`, `-staging`, `set them in the environment`},
		{`demo -n 1 -dir x -target parquet:s3://me:hunter2@bucket/x`, failed, `has credentials`, `-target`, `set them in the environment`},
		{`demo -n 1 -dir x -target parquet:s4://me:hunter2@bucket/x`, failed, `names no bucket`, `-target`, `write a folder`},
		{`demo -n 1 -dir x -target parquet:s3://`, failed, `names no bucket`, `-target`, `write a folder`},
		{`demo -n 1 -dir x -target postgres://me:hunter2@%zz/x`, failed, `connection string cannot be read`, `-target`, `use postgres://`},
		{`demo -n 1 -dir x -target postgres://me:hunter2@SILENT/x`, failed, `no server responds`, `SILENT`, `is it running`},
		{`demo -n 1 -dir x -target mysql://me:hunter2@SILENT/x`, failed, `no server responds`, `SILENT`, `is it running`},
		{`demo -n 1 -dir x -target clickhouse://me:hunter2@SILENT/x`, failed, `no server responds`, `SILENT`, `is it running`},
		{`demo -n 1 -dir x -target sqlite:no/such/folder/x.db`, failed, `unable to open`, `no/such/folder`, `must exist`},
		{`demo -n 1 -dir x -target sqlite:notadb.db`, failed, `is no SQLite database`, `notadb.db`, `name a different one`},
		{`demo -n 1 -dir x -target sqlite:data`, failed, `it is a folder`, `data`, `name a file in it`},
		{`demo -n 1 -dir x -target dir:file`, failed, `is a file, not a folder`, `file`, `choose another folder`},
		{`demo -n 1 -dir x -target parquet:file`, failed, `is a file, not a folder`, `file`, `choose another folder`},
		{`demo -n 1 -dir x -staging dir:file`, failed, `is a file, not a folder`, `file`, `choose another folder`},
		{`health -addr SILENT`, failed, `no server responds`, `http://SILENT/health-check`, `start one with forebay serve`},
		{`health -addr here`, wrongUsage, `"here"`, `-addr`, `must be HOST:PORT`},
		{`health extra`, wrongUsage, `unexpected argument`, `"extra"`, `flags begin with a dash`},
		{`inspect`, failed, `data directory`, `forebay inspect`, `-help shows them`},
		{`inspect nope`, failed, `is not a data directory`, `nope`, `name the -dir of a server`},
		{`inspect old/local`, failed, `is not a data directory`, `old/local`, `name the -dir of a server`},
		{`inspect data`, failed, `in use by another engine`, `data`, `forebay inspect on a checkpoint of it, with -staging`},
		{`inspect -rows xyz old`, failed, `no slice "xyz"`, `old`, `forebay inspect old lists the slices`},
		{`inspect -staging s4:x old`, failed, `"s4", which does not exist`, `-staging`, `dir:FOLDER`},
		{`inspect old -json`, failed, `stands after the argument "old"`, `-json`, `put the flags before`},
		{`orphans`, wrongUsage, `nothing is in a bucket`, `forebay orphans`, `give the file with -config`},
		{`extract -config none.json`, failed, `no such file`, `none.json`, `name a file`},
		{`extract -config jobs.json`, failed, `must be a list of at least one job`, `config.jobs`, `rename the key "jbs"`},
		{`extract -config nojson.json`, failed, `not JSON`, `line 1, column 2`, `a name in quotes is expected`},
		{`extract -out file`, failed, `file cannot be a folder`, `-out`, `choose a path`},
		{`extract extra`, failed, `there are no arguments`, `"extra"`, `only flags`},
		{`templates`, failed, `template`, `forebay templates`, `either with -e or with -template`},
		{`quarantine purge web/events`, wrongUsage, `the action is "purge"`, `forebay quarantine`, `must be list, get`},
		{`quarantine discard web/events -reason malformed`, wrongUsage, `stands after the argument "web/events"`, `-reason`, `put the flags before`},
		{`quarantine replay web/events -all`, wrongUsage, `stands after the argument "web/events"`, `-all`, `put the flags before`},
		{`quarantine list web/events -api x`, wrongUsage, `stands after the argument "web/events"`, `-api`, `put the flags before`},
		{`quarantine list`, wrongUsage, `the sink is missing`, `forebay quarantine`, `name it as SOURCE/SINK`},
		{`quarantine list web`, wrongUsage, `is no sink`, `"web"`, `name it as SOURCE/SINK`},
		{`quarantine list web/events id`, wrongUsage, `unexpected argument`, `"id"`, `list takes SOURCE/SINK alone`},
		{`quarantine discard web/events`, wrongUsage, `needs one of these`, `discard`, `-all`},
		{`quarantine edit web/events id`, wrongUsage, `needs the new body`, `edit`, `-body FILE`},
		{`quarantine list -api nowhere web/events`, wrongUsage, `"nowhere"`, `-api`, `must be an address such as`},
		{`quarantine list -api http://SILENT -token x web/events`, failed, `no server responds`, `http://SILENT (-api)`, `is it running?`},
		{`quarantine list -api API -token wrong web/events`, failed, `refuses the token`, `API`, `-dir, -token or FOREBAY_TOKEN`},
		{`quarantine list -api API -dir none web/events`, failed, `there is no token`, `none/token`, `set FOREBAY_TOKEN`},
		{`quarantine list -api EVENTS -dir data web/events`, failed, `is not the Stream API`, `EVENTS`, `-api must be the -api-addr`},
		{`quarantine list -api API -dir data web/evnts`, failed, `not found`, `Sink "evnts" of source "web"`, `List the sinks`},
		{`quarantine list -api API -dir data -since x web/events`, failed, `"x"`, `since`, `must be a time such as`},
		{`quarantine get -api API -dir data web/events nosuch`, failed, `has no record "nosuch"`, `sink "events" of source "web"`, `List the quarantine`},
		{`quarantine discard -api API -dir data web/events nosuch`, failed, `1 of the given ids name no record`, `the quarantine`, `List the quarantine`},
		{`files discard a/b -reason x`, wrongUsage, `stands after the argument "a/b"`, `-reason`, `put the flags before`},
		{`files list -all -api API -dir data`, wrongUsage, `the sink is missing`, `forebay files`, `name it as SOURCE/SINK`},
		{`files retry -api API -dir data web/events nosuch`, failed, `has no file "nosuch"`, `Sink "events" of source "web"`, `List the files again`},
		{`damage forget a -reason x`, wrongUsage, `stands after the argument "a"`, `-reason`, `put the flags before`},
		{`damage forget -api API -dir data nosuch`, failed, `no record of damage`, `"nosuch"`, `List the records of damage`},
		{`erase`, wrongUsage, `nothing says whose records`, `forebay erase`, `give -path and -value`},
		{`erase -path user.email`, wrongUsage, `belong together`, `-path and -value`, `give both`},
		{`erase -path a[ -value x`, wrongUsage, `position`, `-path`, `write a path such as`},
		{`erase -text ab`, wrongUsage, `has 2 bytes`, `-text`, `write more of it`},
		{`erase -header X-User`, wrongUsage, `no name and value`, `-header`, `write it as`},
		{`erase -value - -text - -path a`, wrongUsage, `both read the standard input`, `-value and -text`, `on the command line`},
		{`erase -text -`, wrongUsage, `has no line`, `-text`, `write the text to it`},
		{`erase -text abc web`, wrongUsage, `unexpected argument`, `"web"`, `flags only`},
		{`erase -text abc -sources A,b`, wrongUsage, `"A"`, `-sources`, `a-z`},
		{`erase -text abc -wait soon`, wrongUsage, `"soon"`, `-wait`, `want a duration, such as`},
		{`erase -text abc -api API -dir data -sources nosuch`, failed, `unknown source`, `"nosuch"`, `correct the id`},
		{`erase -text abc -api http://SILENT -token x`, failed, `no server responds`, `http://SILENT (-api)`, `is it running?`},
		{`replay start a/b`, wrongUsage, `needs a name for the run`, `forebay replay`, `-run NAME`},
		{`replay start -run r -api API -dir data web/events`, failed, `not found`, `sources/web/sinks/events/archive/replay`, `forebay replay start with -config`},
		{`shadow start a/b -reason x`, wrongUsage, `stands after the argument "a/b"`, `-reason`, `put the flags before`},
		{`shadow start a/b`, wrongUsage, `name the changed columns`, `forebay shadow`, `-config FILE`},
		{`shadow list a/b`, wrongUsage, `the action is "list"`, `forebay shadow`, `must be start, show, stop or switch`},
		{`shadow show -api API -dir data web/events`, failed, `has had no shadow`, `Sink "events" of source "web"`, `Start one first`},
		{`giveup`, wrongUsage, `instance`, `forebay giveup`, `the log lines of the nodes name it`},
		{`salvage`, wrongUsage, `fenced-INSTANCE-EPOCH`, `forebay salvage`, `after the flags`},
		{`extract -state bad.json`, failed, `is not the state of a run`, `-state: bad.json`, `name the file that an earlier run wrote`},
		{`extract -columns bad.json`, failed, `is not the output of forebay extract discover`, `bad.json`, `run discover again`},
		{`extract -columns none.json`, failed, `no such file`, `none.json`, `name a file`},
		{`extract -records 5`, failed, `is a positive number`, `-records`, `for preview and discover`},
		{`check -offline -config web.yaml -sample none.json`, failed, `no such file`, `-sample: open none.json`, `name a file`},
		{`templates -template none`, failed, `no such file`, `-template: open none`, `name a file`},
		{`quarantine`, wrongUsage, `the action is missing`, `forebay quarantine`, `write one of list, get`},
		{`quarantine -reason x list a/b`, wrongUsage, `the action is missing`, `forebay quarantine`, `before the flags`},
		{`damage list -token x y`, wrongUsage, `unexpected argument`, `"y"`, `list has flags only`},
		{`quarantine edit -api API -dir data -body none web/events id`, failed, `no such file`, `-body: open none`, `name a file`},
		{`shadow start -token x -definition bad.json a/b`, wrongUsage, `neither a JSON list of columns`, `-definition`, `read the sink through the Stream API`},
		{`shadow start -token x -definition none.json a/b`, failed, `no such file`, `-definition: open none.json`, `name a file`},
		{`shadow start -token x -config web.yaml web/zz`, wrongUsage, `has no sink "zz"`, `web.yaml`, `name a sink of the file`},
		{`replay start -config web.yaml -run r web/events`, wrongUsage, `there is no archive`, `forebay replay`, `-archive, or the key archive`},
		{`replay start -config web.yaml -run r -from x web/events`, wrongUsage, `"x"`, `-from`, `must be a time such as`},
		{`serve -archive-keep-for 1h`, wrongUsage, `is for raw records`, `-archive-keep-for`, `say with -archive where they are`},
		{`serve -token short -ui`, wrongUsage, `has 5 bytes`, `-token`, `needs at least 16`},
		{`serve -node a`, wrongUsage, `needs servers of NATS`, `-node`, `give -cluster-listen and -cluster-peers`},
		{`serve -trusted-proxies x`, wrongUsage, `"x"`, `-trusted-proxies`, `a network`},
		{`serve -min-import-interval 1ms`, wrongUsage, `1ms`, `-min-import-interval`, `allowed is 1s to 1m0s`},
	} {
		if leftOut(tt.call) {
			continue
		}
		places := strings.NewReplacer("API", "http://"+s.addr["api"], "EVENTS", "http://"+s.addr["ingest"], "SILENT", silent)
		args := strings.Fields(places.Replace(tt.call))
		for i, arg := range args {
			args[i] = strings.ReplaceAll(arg, "_", " ") // a space in an argument
		}
		status, out, errs := call(t, "", env, args...)
		command := "forebay " + strings.Join(args, " ")
		if status != tt.status || strings.Contains(out+errs, "hunter2") {
			t.Errorf("%s\ngot      status %d\n%s%s\nwant     status %d and no secret", command, status, out, errs, tt.status)
		}
		// Reports do not name their command, and a message about an unknown word has none to name.
		report := strings.HasPrefix(tt.call, "check -offline") || strings.HasPrefix(tt.call, "templates -e")
		if report {
			errs = "\nforebay" + out + errs
		}
		_, errs, _ = strings.Cut("\n"+errs, "\nforebay") // after the log
		if len(args) > 0 && !report && !strings.HasPrefix(tt.what, "there is no command") && !strings.HasPrefix(errs, " "+args[0]+": ") {
			t.Errorf("%s\ngot      forebay%s\nwant     it to begin with forebay %s:", command, errs, args[0])
		}
		where := places.Replace(strings.TrimPrefix(tt.where, "forebay"))
		messagetest.Check(t, command, errs, messagetest.Want{What: strings.TrimPrefix(tt.what, "forebay"), Where: where, Next: tt.next}, messagetest.GoNames()...)
	}
}
