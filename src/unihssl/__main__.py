from unihssl.cli import main

main()
