package forebay

import "slices"

// Signal is a kind of telemetry. The values are the words of the Stream API.
type Signal string

// The signals of OpenTelemetry that a source of type OTLP takes.
const (
	SignalLogs    Signal = "logs"
	SignalMetrics Signal = "metrics"
	SignalTraces  Signal = "traces"
)

var allSignals = []Signal{SignalLogs, SignalMetrics, SignalTraces}

func (s *Sink) takes(signal Signal) bool {
	return signal == "" || len(s.AllowedSignals) == 0 || slices.Contains(s.AllowedSignals, signal)
}

// forSignal returns the source as a batch of a signal sees it.
func (src *source) forSignal(signal Signal) *source {
	if view, ok := src.views[signal]; ok {
		return view
	}
	return src
}

// makeViews prepares forSignal, for the signals that not every sink takes.
func (src *source) makeViews() {
	for _, signal := range allSignals {
		view := &source{def: src.def, kept: src.kept, dropped: src.dropped}
		for i, s := range src.sinks {
			at := slices.IndexFunc(src.def.Sinks, func(d Sink) bool { return d.ID == s.id })
			if s.archive || src.def.Sinks[at].takes(signal) {
				view.sinks = append(view.sinks, s)
				view.allStored = append(view.allStored, src.allStored[i])
				view.wait = view.wait || s.sync != SyncUnsafe
			}
		}
		if len(view.sinks) < len(src.sinks) {
			if src.views == nil {
				src.views = make(map[Signal]*source)
			}
			src.views[signal] = view
		}
	}
}
