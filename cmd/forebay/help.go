package main

import (
	"fmt"
	"strings"

	"github.com/forebay/forebay/internal/program/extract"
)

// overview is the response to forebay -h. It fits a screen.
func overview() string {
	var b strings.Builder
	b.WriteString("forebay stores events on disk before it responds, then loads each into your tables exactly once.\n\n")
	for _, v := range verbs() {
		fmt.Fprintf(&b, "  %-10s  %s\n", v.name, v.summary)
	}
	b.WriteString("\nStart with: forebay demo -target sqlite:demo.db\nExamples: forebay help COMMAND, or file, cluster, targets. Flags: forebay COMMAND -h.\n")
	return b.String()
}

// subject is a text of forebay help that belongs to no command alone.
type subject struct {
	name string
	text func() string
}

func subjects() []subject {
	return []subject{
		{"file", func() string { return fileHelp }}, {"cluster", func() string { return clusterHelp }}, {"targets", targetsHelp},
	}
}

// targetsHelp lists the targets and stagings, each with the build tag that this program lacks for it.
func targetsHelp() string {
	var b strings.Builder
	b.WriteString("Targets, where the tables are, for -target:\n\n")
	for _, k := range targetKinds() {
		summary := k.summary
		if k.missing != "" {
			summary = "needs a build with -tags " + k.missing
		}
		helpLine(&b, k.form, summary)
	}
	b.WriteString("\nStagings, where rows wait for their table, for -staging:\n\n")
	for _, k := range stagingKinds() {
		helpLine(&b, k.form, k.summary)
	}
	b.WriteString("\nCredentials come from the environment. docs/forebay.md has the options of each target.\n")
	return b.String()
}

// helpLine writes a form and its description on one line, or on two if the form is long.
func helpLine(b *strings.Builder, form, text string) {
	const width = 44
	if len(form)+2 > width {
		fmt.Fprintf(b, "  %s\n  %*s%s\n", form, width, "", text)
		return
	}
	fmt.Fprintf(b, "  %-*s%s\n", width, form, text)
}

const serveHelp = `
forebay serve receives events over HTTP and telemetry over OTLP, and stores them in tables.

  forebay serve -source web           tables are CSV files in data/tables
  forebay serve -source web -target sqlite:events.db
  forebay serve -target postgres://me@db/analytics -dir /var/lib/forebay
  forebay serve -config forebay.yaml  sources from a file; kill -HUP reloads it

The server prints a command that sends an event. If the sources are not in a file, manage them with
the Stream API. Prometheus reads GET /metrics on -api-addr. A balancer reads GET /readiness-check on
-addr. Each flag has an environment variable, such as FOREBAY_API_ADDR for -api-addr.

More: forebay help file, forebay help cluster, forebay help targets, docs/forebay.md.
`

const fileHelp = `
A file for forebay serve -config. Each flag is also a key. docs/forebay.md lists all keys.

  target: sqlite:events.db
  sources:
    - id: web
      secret: ${WEB_SECRET}          # at least 16 characters, from the environment
      sinks:
        - id: events
          table: events
          extend: true               # a column that you add below is added to the table
          columns:
            - {name: id, type: uuid, dataType: uuid}
            - {name: at, type: datetime, dataType: timestamp}
            - {name: user_id, type: path, path: user.id, dataType: int64}
    - id: telemetry
      type: otlp
      secret: ${OTLP_SECRET}         # OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20SECRET
      sinks: [{id: logs, table: logs, preset: logs}]

An event for it. Without the header, curl sends a form, and the paths find nothing:
  curl -H 'Content-Type: application/json' -d '{"user":{"id":42}}' \
    "http://127.0.0.1:8080/stream/1/web/$WEB_SECRET"
forebay check -config forebay.yaml -sample events.json shows the rows of sample events.
`

const clusterHelp = `
The nodes of a cluster share sources and replicate rows. Run this on each of three machines with its
name and address. Set FOREBAY_TOKEN and FOREBAY_CLUSTER_SECRET to the same values on all machines.

  forebay serve -node a -dir /var/lib/forebay -cluster-listen 10.0.0.1:6222 \
    -cluster-peers 10.0.0.1:6222,10.0.0.2:6222,10.0.0.3:6222 \
    -target postgres://me@db/analytics -staging s3://my-bucket/staging

The Stream API of any node manages the sources. All nodes must reach staging and target.
docs/cluster-failures.md describes failures. docs/deploy.md describes a StatefulSet.
`

const demoHelp = `
forebay demo sends events to an engine, reads the tables back and counts the rows. The last line is
the result: sent=10000 rows=20000 rejected=0 lost=0 duplicated=0. The exit status is 1 if a row is
lost or duplicated.

  forebay demo         CSV files in a temporary directory
  forebay demo -n 100000 -target sqlite:demo.db
  forebay demo -target parquet:lake
  forebay demo -staging s3://my-bucket/wait -target parquet:s3://my-bucket/lake
  forebay demo -crash  kills the engine several times, while clients retry
  forebay demo -ui     serves the console until you press Ctrl-C
`

const checkHelp = `
forebay check reads a configuration file as serve does, and reports every mistake with its line and
column. Then it asks the target whether it can have the tables of the sinks. It starts nothing and
changes nothing. With -offline it does not ask the target.

  forebay check -config forebay.yaml
  forebay check -config forebay.yaml -sample events.json  shows the rows of sample events
  echo '{"user":{"id":42}}' | forebay check -config forebay.yaml -sample -

A sample is a JSON document, an array of events, or one event a line. For a source of type otlp, an
event is a flat record, such as {"body":"hello","severity_text":"INFO"}. The exit status is 2 if the
file has a mistake. It is 1 if options, sinks and tables do not match, if the target does not
respond, or if a sink rejects a sample event.
`

const extractHelp = `
forebay extract pulls records from an HTTP API into tables. A JSON file configures it.

  forebay extract  runs a bundled configuration with a bundled API
  forebay extract check -config pull.json     logs in and requests the first page of each job
  forebay extract preview -config pull.json   shows the first records of each job as a table
  forebay extract discover -config pull.json  proposes columns for a sink
  forebay extract -config pull.json -data data -state state.json -target sqlite:pulled.db
  forebay extract -config pull.json -out files  writes CSV files and manifests, without an engine

With -state, a run continues after the last page on disk if the run before it crashed or failed.
Words of a configuration:
` + extract.Words + `
docs/extractor.md describes the configuration.
`

const inspectHelp = `
forebay inspect shows the rows that wait in a data directory: where, for how long and the reason. It
changes nothing.

  forebay inspect data              shows the directory of a stopped server
  forebay inspect -verify data      counts the stored rows again; status 1 if the counters differ
  forebay inspect -rows SLICE data  writes the rows of a slice as CSV

For a running server with -admin 127.0.0.1:8082, make a checkpoint and inspect it:

  curl -X POST http://127.0.0.1:8082/checkpoint
`

const sizeHelp = `
forebay size computes the disk and memory that a server needs. It measures the rows of a data
directory, their bytes on disk and their rate, and shows how long an outage of the tables may be
before events are refused. It changes nothing, and lists the values that it cannot know.

  forebay size data                                      measures the directory of a stopped server
  forebay size -max-disk-bytes 107374182400 data         with the limit of that server
  forebay size -rate 5000 -outage 24h data               plans a higher rate with rows of this size
  forebay size -rate 1000 -row-bytes 300 -outage 8h      plans a machine that does not exist yet

For a running server with -admin 127.0.0.1:8082, make a checkpoint and measure it:

  curl -X POST http://127.0.0.1:8082/checkpoint

docs/deploy.md has the formula.
`

const filesHelp = `
forebay files lists the files whose upload or import failed, and acts on them. It calls the
Stream API of a running server.

  forebay files list                         lists failing files of all sinks, of this node
  forebay files list shop                    lists failing files of the sinks of a source
  forebay files list shop/orders             lists files, with reason and time of the next try
  forebay files retry shop/orders FILE       tries the file now, after you fixed the cause
  forebay files split shop/orders FILE       imports the file without the refused rows
  forebay files quarantine shop/orders FILE  moves the rows of the file to the quarantine
  forebay files discard shop/orders FILE     deletes the rows of the file for good

The server holds a file if the target refuses all its rows, or the first and the last row for the
same reason. The cause is then probably not in the rows. If it is, split the file. Flags precede
SOURCE/SINK. See docs/quarantine.md.
`

const damageHelp = `
forebay damage lists the rows that the disk of a running server has lost. After you have read a
record, remove it. The alert ForebayDamage ends when no record is left. The counters still count the
lost rows. The command calls the Stream API. Each node of a cluster has its own records.

  forebay damage list           lists the records: time, sink, number of rows and reason
  forebay damage list -json     lists them as JSON
  forebay damage forget RECORD  removes records that you have read

Flags precede the ids. See docs/runbook.md.
`

const quarantineHelp = `
forebay quarantine shows rejected records of a sink, and loads them into its table. It calls the
Stream API of a running server, or of any node of a cluster.

  forebay quarantine list shop/orders                      lists records with time and reason
  forebay quarantine list -reason malformed -since 24h -json shop/orders
  forebay quarantine get shop/orders ID                    shows the request, headers and body
  forebay quarantine edit -body fixed.json shop/orders ID  sets a new body and keeps the old one
  forebay quarantine test shop/orders ID                   shows the row that a replay would store
  forebay quarantine replay shop/orders ID                 stores the record as a row exactly once
  forebay quarantine replay -all shop/orders
  forebay quarantine cancel shop/orders                    cancels the running replay
  forebay quarantine discard -until 720h shop/orders       deletes records older than 30 days

replay and discard accept ids, filters or -all, and wait for the end. If you interrupt them, the
server continues, and you may repeat the command. It works for sources of a configuration file too.
Flags precede SOURCE/SINK. See docs/quarantine.md.
`

const eraseHelp = `
forebay erase removes the records of a person from the quarantines, the archives and the waiting
rows of a server. It lists the data that remains, and the SQL that deletes the rows in the tables.

  forebay erase -dry-run -text ada@example.com             finds; changes nothing
  forebay erase -path user.email -value ada@example.com -because 'request 4711'
  forebay erase -header 'X-User: 4711' -sources shop,web
  echo ada@example.com | forebay erase -text -             keeps the text out of the shell history
  forebay erase -config forebay.yaml -text ada@example.com needs a stopped server

A record must meet all conditions that you give. Stop the sender first. You may repeat the command.
The exit status is 1 if something is left. In a cluster run it on each node. See docs/erase.md.
`

const giveUpHelp = `
forebay giveup shows the batches that would be lost with the unreadable part of the log or the
checkpoint of a cluster instance. With -yes it abandons that part, and the remaining rows are loaded
into their tables. It calls the Stream API of any node.

  forebay giveup -api http://10.0.0.2:8081 a-0_k2x9q7mw       shows the loss; changes nothing
  forebay giveup -api http://10.0.0.2:8081 -yes a-0_k2x9q7mw  abandons the unreadable part

The log lines of the nodes name the instance. First try to restore the nodes:
docs/cluster-failures.md#give-up-an-instance.
`

const salvageHelp = `
forebay salvage shows the rows of a folder that a cluster node has set aside and that were
acknowledged on its disk alone, for sinks with AckLocal. With -yes it stores them as new rows. Each
row is stored once, even if you repeat the command. It calls the Stream API of the node that has the
folder.

  forebay salvage -api http://10.0.0.2:8081 fenced-a-k2x9q7mw-4       shows the rows
  forebay salvage -api http://10.0.0.2:8081 -yes fenced-a-k2x9q7mw-4  stores the rows

It omits rows that the log contains, because another node has moved them. See
docs/cluster-failures.md#salvage-a-folder.
`

const replayHelp = `
forebay replay maps the raw records of an archive with the current columns into one sink. Each
record becomes one row per run, even if the run fails and continues.

  forebay replay start -run fix-1 shop/orders  starts a run on a server and waits for the end
  forebay replay start -run fix-1 -from 2026-11-01T00:00:00Z -rows-per-second 5000 shop/orders
  forebay replay start -run fill -archived shop shop/totals         fills a new sink
  forebay replay list shop/orders                                   lists the last 16 runs
  forebay replay cancel shop/orders                                 keeps the stored rows
  forebay replay start -config forebay.yaml -run fix-1 shop/orders  needs a stopped server

After a failure, a crash or a cancellation, a start with the same -run continues. A different name
stores everything again. If you interrupt the command, the server continues the run. Flags precede
SOURCE/SINK. See docs/archive.md.
`

const shadowHelp = `
forebay shadow maps live records with changed columns of a sink in addition to the current columns,
and shows the rows that differ. It stores no rows. It calls the Stream API of a running server.

  forebay shadow start -definition changed.json shop/orders   reads columns as JSON
  forebay shadow start -config changed.yaml -for 1h -sample 0.1 shop/orders
  forebay shadow show shop/orders                             shows the difference so far
  forebay shadow show -wait shop/orders                       waits for the end
  forebay shadow stop shop/orders                             stops, and shows the last report
  forebay shadow switch -definition changed.json shop/orders  gives the sink the columns

A shadow continues when the command ends, and stops with the server. In a cluster, -api names the
node whose records are compared. To switch a source of a configuration file, change the file and
send SIGHUP. Flags precede SOURCE/SINK. See docs/columns.md.
`

const templatesHelp = `
forebay templates evaluates a jsonnet template for one JSON event, and shows the value and the cost.

  echo '{"a":{"b":1}}' | forebay templates -e "Body('a.b') + 1"
  forebay templates -template label.jsonnet -event event.json -header X-Env=prod
`

const orphansHelp = `
forebay orphans lists objects left in buckets by abandoned attempts and by processes that were
killed. With -remove it removes them.

  forebay orphans -config forebay.yaml  lists open uploads; the server may run
  forebay orphans -staging s3://bucket/wait -target parquet:s3://bucket/lake
  forebay orphans -config forebay.yaml -remove       removes open uploads
  forebay orphans -config forebay.yaml -remove data  removes slices of a stopped server too

It removes an upload that began more than -uploads-older-than ago. A running upload ends within
minutes. To find slices, name the data directory of a stopped server, or a checkpoint of a running
one. The slices of other engines in the same bucket stay.
`
