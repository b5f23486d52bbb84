package main

import (
	"encoding/json"
	"fmt"
)

// A goal is a bound that a figure of a report is held against. A missed goal is reported and is no failure, because on another
// machine another figure is right.
type goal struct {
	// figure is a field of the JSON form.
	figure string
	// bound is the least value, or with most the greatest one.
	bound float64
	most  bool
}

func atLeast(figure string, bound float64) goal { return goal{figure: figure, bound: bound} }
func atMost(figure string, bound float64) goal  { return goal{figure: figure, bound: bound, most: true} }

// reached is a goal and the measured value.
type reached struct {
	Figure string  `json:"figure"`
	Value  float64 `json:"value"`
	// Goal is for people: "at most 2" or "at least 0.9".
	Goal string `json:"goal"`
	Met  bool   `json:"met"`
}

func (r reached) String() string {
	if r.Met {
		return fmt.Sprintf("%s %.4g (goal %s)", r.Figure, r.Value, r.Goal)
	}
	return fmt.Sprintf("%s %.4g (goal %s: MISSED)", r.Figure, r.Value, r.Goal)
}

// reached holds the goals of s against its report. A figure that does not exist on this system has no verdict.
func (s scenario) reached(r result) []reached {
	var all []reached
	for _, g := range s.goals {
		value, ok := r.value(g.figure)
		if !ok {
			continue
		}
		bound, met := "at least", value >= g.bound
		if g.most {
			bound, met = "at most", value <= g.bound
		}
		all = append(all, reached{Figure: g.figure, Value: value, Goal: fmt.Sprintf("%s %.10g", bound, g.bound), Met: met})
	}
	return all
}

// value returns the figure with the name of its JSON field.
func (r result) value(name string) (float64, bool) {
	line, err := json.Marshal(r)
	if err != nil {
		return 0, false
	}
	var fields map[string]any
	if err := json.Unmarshal(line, &fields); err != nil {
		return 0, false
	}
	v, ok := fields[name].(float64)
	return v, ok
}
