package simulator

import (
	"slices"
	"strings"

	recipe "github.com/linuxarena/ctis/templates/image"
)

// Labels are inherited, so an untagged image that has one of ctis's may be somebody's
// own, built on an image of ctis. What tells them apart is how an image was made:
// whoever builds on one adds steps to its history.

// brokenOff are, in the Dockerfile that ctis comes with, the steps that follow the
// label by which what a build left behind is known.
var brokenOff = map[string][]string{
	LabelBuildStage: recipe.StepsAfter(LabelBuildStage),
	LabelProtocol:   recipe.StepsAfter(LabelProtocol),
}

// leftByBuild tells whether an untagged image is one that a build of ctis left behind, from
// its labels and its history, the lowest step first. The twin is the history of the
// image that has the tag of the same source; nil if there is none.
func leftByBuild(labels map[string]string, history, twin []string) bool {
	if hash := labels[LabelHash]; hash != "" {
		// The engine's classic builder notes the label as the last step. BuildKit does
		// not note it at all, but builds of one source have one history.
		return len(history) > 0 && sets(history[len(history)-1], LabelHash+"="+hash) ||
			len(history) > 0 && slices.Equal(history, twin)
	}
	for label, steps := range brokenOff {
		at := slices.IndexFunc(history, func(step string) bool { return sets(step, label+"=") })
		if labels[label] == "" || at < 0 {
			continue
		}
		if label == LabelProtocol && len(history)-at-1 >= len(steps) {
			continue // it is whole: somebody built the Dockerfile, and may use what came of it by its id
		}
		if follows(history[at+1:], steps) {
			return true
		}
	}
	return false
}

// sets tells whether a step of a history sets a label, to a value if one is given.
func sets(step, label string) bool {
	_, text, _ := strings.Cut(step, "LABEL ")
	return slices.ContainsFunc(strings.Fields(text), func(pair string) bool {
		return pair == label || strings.HasSuffix(label, "=") && strings.HasPrefix(pair, label)
	})
}

// follows tells whether a history goes on with steps of the Dockerfile, given by
// their instructions, and with no other. Builders note COPY by what was copied and
// RUN by its command alone.
func follows(history, steps []string) bool {
	if len(history) > len(steps) {
		return false
	}
	for i, step := range history {
		word, rest, _ := strings.Cut(steps[i], " ")
		_, noted, nop := strings.Cut(step, "#(nop) ")
		if !nop {
			noted = step
		}
		noted = strings.TrimSpace(noted)
		switch {
		case word == "RUN" && strings.Contains(strings.Join(strings.Fields(noted), " "), strings.Join(strings.Fields(rest), " ")):
		case word != "RUN" && strings.HasPrefix(noted, word+" "):
		default:
			return false
		}
	}
	return true
}
