package main

import (
	"fmt"
	"strings"
)

// overview is the response to forebay -h. It fits a screen.
func overview() string {
	var b strings.Builder
	b.WriteString("forebay stores events on disk, and then moves them to tables without losing or doubling a row.\n\n")
	for _, v := range verbs() {
		fmt.Fprintf(&b, "  %-10s  %s\n", v.name, v.summary)
	}
	b.WriteString("\nBegin with: forebay demo -target sqlite:demo.db\nExamples: forebay help COMMAND, or file, cluster, targets. Flags: forebay COMMAND -h.\n")
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
		fmt.Fprintf(&b, "  %s\n      %s\n", k.form, summary)
	}
	b.WriteString("\nStagings, where rows wait for their table, for -staging:\n\n")
	for _, k := range stagingKinds() {
		fmt.Fprintf(&b, "  %s\n      %s\n", k.form, k.summary)
	}
	b.WriteString("\nCredentials come from the environment. docs/forebay.md has the options of each target.\n")
	return b.String()
}

const serveHelp = `
forebay serve takes events over HTTP and telemetry over OTLP, and stores them in tables.

  forebay serve -source web           tables are CSV files in data/tables
  forebay serve -source web -target sqlite:events.db
  forebay serve -target postgres://me@db/analytics -dir /var/lib/forebay
  forebay serve -config forebay.yaml  sources in a file; kill -HUP reloads it

The server prints a command that sends an event. Without sources in a file, the Stream API manages
them. GET /metrics on -api-addr is for Prometheus, GET /readiness-check on -addr for a balancer.

More: forebay help file, forebay help cluster, forebay help targets, docs/forebay.md.
`

const fileHelp = `
A file for forebay serve -config. docs/forebay.md has all keys; each flag is a key too.

  target: sqlite:events.db
  sources:
    - id: web
      secret: ${WEB_SECRET}          # at least 16 characters, from the environment
      sinks:
        - id: events
          table: events
          extend: true               # a column that is added below is added to the table
          columns:
            - {name: id, type: uuid, dataType: uuid}
            - {name: at, type: datetime, dataType: timestamp}
            - {name: user, type: path, path: user.id, dataType: int64}
    - id: telemetry
      type: otlp
      secret: ${OTLP_SECRET}         # OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20SECRET
      sinks: [{id: logs, table: logs, preset: logs}]

An event for it. Without the header, curl sends a form, and the paths find nothing:
  curl -H 'Content-Type: application/json' -d '{"user":{"id":42}}' \
    "http://127.0.0.1:8080/stream/1/web/$WEB_SECRET"
forebay check -config forebay.yaml -sample events.json shows the rows that events give.
`

const clusterHelp = `
The nodes of a cluster share their sources and keep each other's rows. On three machines, each with
its own name and address, and with FOREBAY_TOKEN and FOREBAY_CLUSTER_SECRET in the environment:

  forebay serve -node a -dir /var/lib/forebay -cluster-listen 10.0.0.1:6222 \
    -cluster-peers 10.0.0.1:6222,10.0.0.2:6222,10.0.0.3:6222 \
    -target postgres://me@db/analytics -staging s3://my-bucket/staging

The Stream API of any node manages the sources. Staging and target are places that all nodes reach.
docs/cluster.md describes failures and upgrades, docs/deploy.md a StatefulSet.
`

const demoHelp = `
forebay demo sends events through all levels of an engine, reads the tables back and counts the
rows. The last line has the result: quickstart: sent=10000 rows=20000 rejected=0 lost=0
duplicated=0. The exit status is 1 if a row was lost or doubled.

  forebay demo         CSV files in a temporary directory
  forebay demo -n 100000 -target sqlite:demo.db
  forebay demo -target parquet:lake
  forebay demo -staging s3://my-bucket/wait -target parquet:s3://my-bucket/lake
  forebay demo -crash  the engine is killed again and again, the clients retry
`

const checkHelp = `
forebay check reads a configuration file as serve does, starts nothing, and names every mistake with
its line and column. Then it asks the target whether it can have the tables of the sinks, and
changes nothing there. With -offline it does not ask.

  forebay check -config forebay.yaml
  forebay check -config forebay.yaml -sample events.json  shows the rows that events give
  echo '{"user":{"id":42}}' | forebay check -config forebay.yaml -sample -

A sample is one JSON document, an array of events, or one event a line. For a source of type otlp an
event is a flat record, such as {"body":"hello","severity_text":"INFO"}. The exit status is 2 if the
file has a mistake. It is 1 if options, sinks and tables do not fit each other, if the target cannot
be asked, or if a sink rejects an event of the sample.
`

const extractHelp = `
forebay extract pulls records from an HTTP API, as a JSON configuration says, into tables.

  forebay extract  a bundled configuration and API, to see it work
  forebay extract check -config pull.json  only log in, and ask for the first page of each job
  forebay extract preview -config pull.json -records 5  the first records of each job as a table
  forebay extract discover -config pull.json  columns with types that the records fit, for a sink
  forebay extract -config pull.json -data data -state state.json -target sqlite:pulled.db
  forebay extract -config pull.json -out files          CSV files and manifests, without an engine

After a crash or an error, a run with -state continues after the last page on disk, also with
-out. docs/extractor.md describes the configuration.
`

const inspectHelp = `
forebay inspect shows what waits in a data directory, where, for how long and why. It changes
nothing.

  forebay inspect data                           of a server that is stopped
  forebay inspect -verify data  counts the stored rows again; status 1 if they differ
  forebay inspect -rows SLICE data               writes the rows of a slice as CSV
  curl -X POST http://127.0.0.1:8082/checkpoint  copies a server that runs with -admin
`

const filesHelp = `
forebay files shows the files of a sink of a running server whose upload or import has failed, and
decides what becomes of them. It speaks the Stream API.

  forebay files list shop/orders             which files wait, why, and when they are tried again
  forebay files retry shop/orders FILE       tries the file at once, after the cause was fixed
  forebay files split shop/orders FILE       imports it without the refused rows
  forebay files quarantine shop/orders FILE  moves its rows to the quarantine
  forebay files discard shop/orders FILE     gives up its rows for good

A file that the target refuses whole, or whose first and last row it refuses for the same reason, is
held: the cause is probably not in the rows. If it is, split the file. The flags stand before
SOURCE/SINK. docs/quarantine.md has the rest.
`

const damageHelp = `
forebay damage lists the rows that the disk of a running server has lost. After you have read a
record, remove it: the alert ForebayDamage ends when no record is left. The counters keep the lost
rows. The command speaks the Stream API, and each node of a cluster has its own records.

  forebay damage list           lists the records: when, which sink, how many rows, and why
  forebay damage list -json     does the same as JSON
  forebay damage forget RECORD  removes records that you have read

The flags stand before the ids. docs/operations.md has the rest.
`

const quarantineHelp = `
forebay quarantine shows the records that a sink of a running server has rejected and kept, and
brings them to its table. It speaks the Stream API, and so through any node of a cluster.

  forebay quarantine list shop/orders                      what was rejected, when and why
  forebay quarantine list -reason malformed -since 24h -json shop/orders
  forebay quarantine get shop/orders ID                    the request, its headers and body
  forebay quarantine edit -body fixed.json shop/orders ID  sets a new body and keeps the old one
  forebay quarantine test shop/orders ID                   the row that it would become now
  forebay quarantine replay shop/orders ID                 makes it a row, exactly once
  forebay quarantine replay -all shop/orders
  forebay quarantine cancel shop/orders                    ends the replay that runs
  forebay quarantine discard -until 720h shop/orders  deletes for good what is older than 30 days

The flags stand before SOURCE/SINK. replay and discard take ids, filters, or -all, and wait for the
end; if they are interrupted, the server continues, and the same call may be repeated. It works on a
server with a configuration file too. docs/quarantine.md has the rest.
`

const giveUpHelp = `
forebay giveup says of an instance of a cluster which batches would be lost with the part of its log
or its checkpoint that nobody can read, and with -yes gives that part up, so that the rest comes to
the tables. It asks any node, at the address of its Stream API.

  forebay giveup -api http://10.0.0.2:8080 a-0_k2x9q7mw       what would be lost; changes nothing
  forebay giveup -api http://10.0.0.2:8080 -yes a-0_k2x9q7mw  the same, and does it

The instance is the one that the log lines of the nodes name. Bring back first what can be brought
back: docs/cluster.md#give-up-an-instance.
`

const salvageHelp = `
forebay salvage says which rows of a folder that a node of a cluster has set aside were acknowledged
on its disk alone, for sinks with AckLocal, and with -yes stores them as new rows, each once,
however often it is repeated. It asks the node that has the folder, at the address of its Stream
API.

  forebay salvage -api http://10.0.0.2:8080 fenced-a-k2x9q7mw-4       what would be stored
  forebay salvage -api http://10.0.0.2:8080 -yes fenced-a-k2x9q7mw-4  the same, and does it

Rows that the log had are left out: another node has moved them. docs/cluster.md#salvage-a-folder
has the rest.
`

const replayHelp = `
forebay replay maps the raw records of an archive with the columns of now into one sink. Each record
becomes one row for each run, whatever fails.

  forebay replay start -run fix-1 shop/orders  of a running server; waits for the end
  forebay replay start -run fix-1 -from 2026-11-01T00:00:00Z -rows-per-second 5000 shop/orders
  forebay replay start -run fill -archived shop shop/totals         into a sink that is new
  forebay replay list shop/orders                                   the last 16 runs of the sink
  forebay replay cancel shop/orders                                 what it has stored stays
  forebay replay start -config forebay.yaml -run fix-1 shop/orders  the server is stopped

The flags stand before SOURCE/SINK. After a failure, a crash or a cancellation the same -run goes on
where it was. Another name stores everything again. A run that is started over the Stream API goes
on in the server when the command is interrupted. docs/archive.md has the rest.
`

const shadowHelp = `
forebay shadow lets changed columns of a sink run beside its own on the records that arrive at a
running server, and shows how the rows would differ. Nothing of it is stored. It speaks the Stream
API.

  forebay shadow start -definition changed.json shop/orders                  columns as JSON
  forebay shadow start -config changed.yaml -for 1h -sample 0.1 shop/orders  from a file
  forebay shadow show shop/orders  the difference so far; -wait waits for the end
  forebay shadow stop shop/orders  ends it, and shows the last report
  forebay shadow switch -definition changed.json shop/orders  gives the sink the columns

The flags stand before SOURCE/SINK. A shadow goes on when the command has ended, and ends with the
server. In a cluster -api names the node whose records are compared. The sources of a configuration
file are switched by that file, and a SIGHUP. docs/shadow.md has the rest.
`

const templatesHelp = `
forebay templates evaluates a jsonnet template over one JSON event, and shows the value and the
cost.

  echo '{"a":{"b":1}}' | forebay templates -e "Body('a.b') + 1"
  forebay templates -template label.jsonnet -event event.json -header X-Env=prod
`
