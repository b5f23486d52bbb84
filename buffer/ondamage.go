package buffer

// reportDamage hands damage over to Options.OnDamage, which ends the buffer. It neither blocks nor uses the store. It reports false where
// damage is counted instead.
func (b *Buffer) reportDamage(err error) bool {
	if b.opts.OnDamage == nil {
		return false
	}
	select {
	case b.found <- err:
	default: // one is enough
	}
	return true
}

// watchDamage ends the buffer permanently when damage is found. The goroutine that has found it cannot do that, because it may be in the database,
// with locks held.
func (b *Buffer) watchDamage() {
	defer close(b.unwatched)
	select {
	case err := <-b.found:
		d := b.storeDamage(err)
		b.log.Error("local level damaged and engine stopped", "dir", b.dir, "cause", err, "next", "the node restores it from the changelog; check the disk")
		b.opts.OnDamage(d)
		b.unsound.Store(d)
		_ = b.fail(d)
	case <-b.ctx.Done():
	}
}

func (b *Buffer) storeDamage(cause error) *StoreDamageError {
	return &StoreDamageError{Dir: b.dir, Err: cause, replicated: true}
}

// stop ends what acts by itself after damage. Called by the committer.
func (b *Buffer) stop() {
	if b.ended {
		return
	}
	b.ended = true
	b.confirm.giveUp()
	b.background.cancel()
	b.mu.Lock()
	b.signalChange()
	b.mu.Unlock()
	b.admission.serve()
}
