"""`python -m ceql` is the command `ceql`."""

from ceql.cli import main

if __name__ == "__main__":
    main()
