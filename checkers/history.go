// A history of operations on registers, as JSON Lines.

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/anishathalye/porcupine"
)

// line is one operation. Times are numbers of any unit that order the calls and
// returns of all clients.
type line struct {
	Client  int     `json:"client"`
	Op      string  `json:"op"`
	Key     string  `json:"key"`
	Value   *string `json:"value"`
	Call    int64   `json:"call"`
	Return  *int64  `json:"return"`
	Outcome string  `json:"outcome"`
}

// input is the request of an operation.
type input struct {
	isWrite bool
	key     string
	value   string
}

// register is the state of a register, and the output of a read.
type register struct {
	isThere bool
	value   string
}

// readHistory returns the operations for which porcupine must find an order.
//
// A read without an answer is left out, because it fits into every order. A write
// that failed is left out, so that no order exists if a read returned its value.
// A write whose outcome is unknown may take effect at any time after its call, so
// its time of return is the greatest number.
func readHistory(from io.Reader) ([]porcupine.Operation, error) {
	var operations []porcupine.Operation
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		var parsed line
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&parsed); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		operation, err := parsed.operation()
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if operation != nil {
			operations = append(operations, *operation)
		}
	}
	return operations, lines.Err()
}

func (parsed *line) operation() (*porcupine.Operation, error) {
	operation := porcupine.Operation{ClientId: parsed.Client, Call: parsed.Call, Return: math.MaxInt64}
	switch parsed.Outcome {
	case "ok":
		if parsed.Return == nil || *parsed.Return < parsed.Call {
			return nil, fmt.Errorf("an operation that succeeded must return after its call")
		}
		operation.Return = *parsed.Return
	case "failed", "unknown":
	default:
		return nil, fmt.Errorf("no outcome %q: there are ok, failed and unknown", parsed.Outcome)
	}
	switch parsed.Op {
	case "read":
		if parsed.Outcome != "ok" {
			return nil, nil
		}
		operation.Input = input{key: parsed.Key}
		if parsed.Value == nil {
			operation.Output = register{}
		} else {
			operation.Output = register{isThere: true, value: *parsed.Value}
		}
	case "write":
		if parsed.Value == nil {
			return nil, fmt.Errorf("a write must have a value")
		}
		if parsed.Outcome == "failed" {
			return nil, nil
		}
		operation.Input = input{isWrite: true, key: parsed.Key, value: *parsed.Value}
	default:
		return nil, fmt.Errorf("no operation %q: there are read and write", parsed.Op)
	}
	return &operation, nil
}

// registers is the sequential specification: each key is a register of its own.
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		byKey := map[string][]porcupine.Operation{}
		var keys []string
		for _, operation := range history {
			key := operation.Input.(input).key
			if byKey[key] == nil {
				keys = append(keys, key)
			}
			byKey[key] = append(byKey[key], operation)
		}
		var parts [][]porcupine.Operation
		for _, key := range keys {
			parts = append(parts, byKey[key])
		}
		return parts
	},
	Init: func() interface{} { return register{} },
	Step: func(state, asked, output interface{}) (bool, interface{}) {
		if asked := asked.(input); asked.isWrite {
			return true, register{isThere: true, value: asked.value}
		}
		return state == output, state
	},
	DescribeOperation: func(asked, output interface{}) string {
		if asked := asked.(input); asked.isWrite {
			return fmt.Sprintf("write %s = %s", asked.key, asked.value)
		}
		return fmt.Sprintf("read %s: %s", asked.(input).key, describe(output))
	},
	DescribeState: describe,
}

func describe(state interface{}) string {
	if state := state.(register); state.isThere {
		return state.value
	}
	return "nothing"
}
