package forebay

// Compilations is how often mappings were compiled.
func (e *Engine) Compilations() int64 { return e.mappers.Compiled() }

// KeptMappers is how many mappers the cache keeps alive.
func (e *Engine) KeptMappers() int { return e.mappers.Kept() }

// TracedSinks is how many sinks have calls that spans of uploads and imports can be linked to.
func (e *Engine) TracedSinks() int { return e.spans.Sinks() }
