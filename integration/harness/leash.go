package harness

import (
	"os"
	"os/exec"
	"strconv"
)

// Run runs a cordwood command to its end as cmd.Run does, on a leash: it ends at once when this process does, in
// whatever way.
func Run(cmd *exec.Cmd) error {
	child, leash, err := os.Pipe()
	if err != nil {
		return err
	}
	defer leash.Close()
	cmd.ExtraFiles = append(cmd.ExtraFiles, child)
	cmd.Args = append(cmd.Args, "--leash", strconv.Itoa(2+len(cmd.ExtraFiles)))
	err = cmd.Start()
	child.Close()
	if err != nil {
		return err
	}
	return cmd.Wait()
}
