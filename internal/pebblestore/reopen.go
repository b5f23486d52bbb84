package pebblestore

import "time"

// acquire returns the current opening, or opens one. The caller calls its Release.
func (s *Store) acquire() (*Opening, error) {
	for {
		c, o := s.Now(), s.now.Load()
		if c.Phase >= PhaseClosing {
			return nil, ErrClosed
		}
		if err := o.Failure(); c.Phase == PhaseOpen && err != nil {
			s.failed(o, err) // whoever has seen it first may not have told yet
		} else if c.Phase == PhaseOpen {
			if o.Read() == nil {
				return o, nil
			}
		} else if _, err := s.reopen(); err != nil {
			return nil, err
		}
	}
}

// ReopenInBackground begins to reopen a store that has failed, and makes attempts until one succeeds or Stop is called. It
// reports false when there is nothing to do. start is called before Stop can begin, and the function it returns before the
// failed opening is given up.
func (s *Store) ReopenInBackground(start func() (end func())) bool {
	var end func()
	if !s.beginReopening(func() {
		s.background.Add(1)
		end = start()
	}) {
		return false
	}
	go func() {
		defer s.background.Done()
		end()
		for wait, err := s.reopen(); err != nil && !s.final(); wait, err = s.reopen() {
			select {
			case <-time.After(wait):
			case <-s.stopped:
			}
		}
	}()
	return true
}

func (s *Store) final() bool { return s.conf.Final != nil && s.conf.Final() }

func (s *Store) beginReopening(start func()) bool {
	begun := !s.final() && s.life.reopen(start)
	if begun {
		s.conf.Log.Error("store failed", "store", s.conf.Name, "dir", s.conf.Dir, "cause", s.Now().Failure, "next", "check the disk; the store is reopened")
	}
	return begun
}

// reopen makes one attempt to open the store again, unless the last one was just now. Calls at once share it. It returns nil
// when the store is open or was handed to StoreConfig.Install, and when it is being closed. Otherwise it also returns the time until the next
// attempt.
func (s *Store) reopen() (time.Duration, error) {
	s.attempting.Lock()
	defer s.attempting.Unlock()
	s.beginReopening(func() {})
	if s.Now().Phase != PhaseReopening {
		return 0, nil
	}
	if wait := time.Until(s.next); wait > 0 {
		return wait, &FailedError{RetryAfter: wait, Err: s.failure}
	}
	if s.attempts == 0 {
		s.abandon()
	}
	o, err := s.open()
	if err == nil {
		s.attempts, s.next, s.failure = 0, time.Time{}, nil
		s.conf.Install(o)
		return 0, nil
	}
	s.attempts++
	wait := s.conf.Delay(s.attempts)
	s.failure, s.next = err, time.Now().Add(wait)
	s.conf.Log.Error("store not reopened", "store", s.conf.Name, "dir", s.conf.Dir, "attempt", s.attempts, "retry_after", s.next, "cause", err, "next", "check the disk; the store is reopened")
	if IsDamage(err) {
		return wait, err
	}
	return wait, &FailedError{RetryAfter: wait, Err: err}
}

// delay grows from 100 ms to 10 s.
func delay(attempt int) time.Duration {
	return min(100*time.Millisecond<<min(attempt-1, 16), 10*time.Second)
}

// abandon gives up the current opening, which has failed. It can no longer reach the disk, so another opening can begin
// while calls still read from it.
func (s *Store) abandon() {
	old := s.now.Load()
	old.fs.Wait()
	old.fs.sweep()
	if s.conf.Patience > 0 {
		_ = old.Close() // the failure is known
		return
	}
	go func() { _ = old.Close() }()
}

// Install ends a reopening with its opening. start runs before Stop can begin. It reports false, and closes the opening, when
// Stop has begun.
func (s *Store) Install(o *Opening, start func()) bool {
	if !s.life.reopened(func() {
		s.now.Store(o)
		start()
	}) {
		_ = o.Close() // it was never used
		return false
	}
	s.conf.Log.Warn("store reopened", "store", s.conf.Name, "dir", s.conf.Dir, "next", "calls are accepted again; check the disk")
	s.used(o)
	return true
}
