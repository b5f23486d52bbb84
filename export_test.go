package forebay

// Combining reports whether callers of Ingest map the records of each other now.
func (e *Engine) Combining(source string) bool { return (*e.sources.Load())[source].combiner.on.Load() }
