package natsdriver

import "time"

// Pace says how fast a log is.
type Pace struct {
	// Leader is the server that leads the log. It is empty if the leader is not known yet.
	Leader string
	// Took is how long the last records took until they were acknowledged, as a mean in which the newest counts for an eighth. Records is their number.
	Took    time.Duration
	Records int
	// Last is when the last of them was acknowledged.
	Last time.Time
}

// Pace returns the pace of the records that this Log has appended to the log of an instance.
func (l *Log) Pace(instance string) Pace {
	l.mu.Lock()
	p := l.paces[instance]
	l.mu.Unlock()
	if name, err := l.name(instance); err == nil {
		p.Leader = l.options.elections.last(name).leader
	}
	return p
}

func (l *Log) took(instance string, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.paces[instance]
	if p.Records++; p.Records == 1 {
		p.Took = d
	}
	p.Took += (d - p.Took) / 8
	p.Last = time.Now()
	l.paces[instance] = p
}

// forgetPace lets the pace begin again, under a different leader.
func (l *Log) forgetPace(instance string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.paces, instance)
}
