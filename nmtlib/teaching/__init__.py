"""What teaches: behaviour checks for any implementation, and a catalogue of bugs to practise on."""
