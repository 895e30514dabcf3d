// The judge: Talos's own reading of machine configs, for as many as are asked about.
//
// Each line of the input is one question, each line of the output its answer, in the same order. A line that is no
// question ends the program: the caller has a bug. With --keys KIND… it lists the keys that it knows. With --workers it
// makes workers' configs as Talos's own generator does, one for each line of the input.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/hashicorp/go-multierror"

	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
	"github.com/siderolabs/talos/pkg/machinery/config/validation"
)

const machinery = "github.com/siderolabs/talos/pkg/machinery"

type question struct {
	Name    string `json:"name"`
	Text    string `json:"text"`
	Mode    string `json:"mode"`    // cloud, metal or container
	Strict  bool   `json:"strict"`  // warnings count as errors
	Runtime bool   `json:"runtime"` // also what a node checks once it runs, as far as no disks are needed for it
}

type answer struct {
	Name     string   `json:"name"`
	Verdict  string   `json:"verdict"` // accepted; unreadable: the loader refused it; invalid: the validator did
	Errors   []string `json:"errors"`
	Warnings []string `json:"warnings"`

	Environment map[string]string `json:"environment"` // of the machine, as it was read
}

type mode string

func (m mode) String() string        { return string(m) }
func (m mode) RequiresInstall() bool { return m == "metal" }
func (m mode) InContainer() bool     { return m == "container" }

func main() {
	task := ""
	if len(os.Args) > 1 {
		task = os.Args[1]
	}

	var err error

	switch task {
	case "":
		err = judgeAll()
	case "--keys":
		err = tellKeys(os.Args[2:])
	case "--workers":
		err = makeWorkers()
	case "--version":
		fmt.Println(builtWith())
	default:
		err = fmt.Errorf("there is no %s", task)
	}

	if err != nil {
		fmt.Fprintln(os.Stderr, "talos-judge:", err)
		os.Exit(1)
	}
}

// builtWith is read from the program itself, so it cannot differ from what was linked.
func builtWith() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}

	for _, dependency := range info.Deps {
		if dependency.Path == machinery {
			return dependency.Version
		}
	}

	return "unknown"
}

func judgeAll() error {
	questions := json.NewDecoder(bufio.NewReader(os.Stdin))
	out := bufio.NewWriter(os.Stdout)
	answers := json.NewEncoder(out)
	answers.SetEscapeHTML(false)

	for questions.More() {
		var asked question

		if err := questions.Decode(&asked); err != nil {
			return err
		}

		if err := answers.Encode(judge(asked)); err != nil {
			return err
		}

		if err := out.Flush(); err != nil {
			return err
		}
	}

	return nil
}

// judge never lets one config take the others with it: a panic inside Talos's code is an answer too.
func judge(asked question) (given answer) {
	given = answer{Name: asked.Name, Verdict: "accepted", Errors: []string{}, Warnings: []string{}}

	defer func() {
		if cause := recover(); cause != nil {
			given.Verdict = "invalid"
			given.Errors = append(given.Errors, fmt.Sprintf("panic: %v", cause))
		}
	}()

	config, err := configloader.NewFromBytes([]byte(asked.Text))
	if err != nil {
		given.Verdict = "unreadable"
		given.Errors = apart(err)

		return given
	}

	if classic := config.RawV1Alpha1(); classic != nil && classic.MachineConfig != nil {
		given.Environment = classic.MachineConfig.MachineEnv
	}

	var options []validation.Option
	if asked.Strict {
		options = append(options, validation.WithStrict())
	}

	warnings, err := config.Validate(mode(asked.Mode), options...)
	given.note(warnings, err)

	if asked.Runtime {
		warnings, err = config.RuntimeValidate(context.Background(), nil, mode(asked.Mode), options...)
		given.note(warnings, err)
	}

	return given
}

func (given *answer) note(warnings []string, err error) {
	given.Warnings = append(given.Warnings, warnings...)

	if err != nil {
		given.Verdict = "invalid"
		given.Errors = append(given.Errors, apart(err)...)
	}
}

// apart gives one sentence per error, however they were folded into each other.
func apart(err error) []string {
	var several *multierror.Error
	if !errors.As(err, &several) {
		return []string{err.Error()}
	}

	var sentences []string

	for _, one := range several.Errors {
		sentences = append(sentences, apart(one)...)
	}

	return sentences
}
